//! The repository's text files as read from disk, without what git ignores.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All text files by their path from the root, with `/` between names, and all folders.
pub struct Repository {
    texts: BTreeMap<String, String>,
    /// Every file and folder; folders end with `/`.
    paths: Vec<String>,
}

impl Repository {
    /// Reads the repository that this test belongs to.
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .expect("the root of the repository");
        let ignored = fs::read_to_string(root.join(".gitignore")).expect(".gitignore");
        let ignored = Ignored::parse(&ignored);
        let mut repository = Self::of([]);
        repository.walk(&root, "", &ignored);
        repository
    }

    /// A repository of these files, for the rules' own tests.
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut repository = Self {
            texts: BTreeMap::new(),
            paths: Vec::new(),
        };
        for (path, text) in files {
            let folders = path.match_indices('/').map(|(at, _)| path[..=at].to_owned());
            repository.paths.extend(folders);
            repository.paths.push(path.to_owned());
            repository.texts.insert(path.to_owned(), text.to_owned());
        }
        repository
    }

    /// The text files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// A file's text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Every file and folder; folders end with `/`.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    fn walk(&mut self, folder: &Path, prefix: &str, ignored: &Ignored) {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let entry = entry.expect("a readable entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("a file type");
            let path = if kind.is_dir() {
                format!("{prefix}{name}/")
            } else {
                format!("{prefix}{name}")
            };
            // In a worktree `.git` is a file.
            if name == ".git" || ignored.has(&path) {
                continue;
            }
            if kind.is_dir() {
                self.walk(&entry.path(), &path, ignored);
            } else if let Ok(text) = fs::read_to_string(entry.path()) {
                // What is not UTF-8 is no text and no rule is about it.
                self.texts.insert(path.clone(), text);
            }
            self.paths.push(path);
        }
    }
}

/// What `.gitignore` at the root leaves out. Understands what this repository uses: names of folders (`target/`)
/// and paths from the root (`/e2e/node_modules/`, `/name`).
pub struct Ignored {
    names: Vec<String>,
    paths: Vec<String>,
}

impl Ignored {
    pub fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        for line in lines {
            assert!(
                !line.contains(['*', '!']),
                ".gitignore: `{line}` is a pattern that this test cannot read"
            );
            match line.strip_prefix('/') {
                Some(path) => paths.push(path.to_owned()),
                None => names.push(line.to_owned()),
            }
        }
        Self { names, paths }
    }

    /// Whether a path from the root, folders ending with `/`, is left out.
    pub fn has(&self, path: &str) -> bool {
        let bare = path.trim_end_matches('/');
        let name = bare.rsplit('/').next().unwrap_or(bare);
        let suffix = &path[bare.len()..];
        self.paths.iter().any(|ignored| ignored == path)
            || self
                .names
                .iter()
                .any(|ignored| *ignored == format!("{name}{suffix}") || ignored == name)
    }
}
