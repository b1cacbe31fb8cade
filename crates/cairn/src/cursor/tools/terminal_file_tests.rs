//! Reading a command's file at any split, with and without its foot.

use super::*;

const HEAD: &str = "---\npid: 27238\ncwd: \"/w\"\ncommand: \"printf '---\\n'; exit 7\"\nstarted_at: 2026-11-30T03:27:30.027Z\nrunning_for_ms: 17       \n---\n";
const FOOT: &str = "\n---\nexit_code: 7\nelapsed_ms: 2030\nended_at: 2026-11-30T03:27:32.057Z\n---\n";

/// Reads the file as it stands, from the line that is asked for.
fn read(file: &mut TerminalFile, disk: &str, pattern: Option<&LinePattern>) {
    let skip = file.next_line().map_or(0, |line| line - 1);
    let rest: Vec<&str> = disk.split('\n').skip(skip).collect();
    assert_eq!(file.take(&rest.join("\n"), pattern), Ok(()));
}

#[test]
fn a_file_reads_the_same_however_it_grew() {
    let output: String = (0..30).map(|line| format!("line {line}\n---\n")).collect();
    let disk = format!("{HEAD}{output}no line end{FOOT}");
    for step in [1, 7, 64, disk.len()] {
        let mut file = TerminalFile::default();
        let mut at = HEAD.len();
        while at < disk.len() {
            assert_eq!(file.ended(), None);
            read(&mut file, &disk[..at], None);
            at += step;
        }
        read(&mut file, &disk, None);
        assert_eq!(
            file.ended(),
            Some(Ended {
                exit_code: Some(7),
                elapsed_ms: 2030
            })
        );
        assert_eq!(file.output_end(), (format!("{output}no line end"), false));
        assert_eq!(file.output_bytes(), output.len() + "no line end".len());
        assert_eq!(file.started_at_ms(), Some(1_796_009_250_027));
    }
}

#[test]
fn a_killed_command_has_no_exit_code() {
    let mut file = TerminalFile::default();
    let foot = FOOT.replace("exit_code: 7", "exit_code: unknown");
    read(&mut file, &format!("{HEAD}two\n{foot}"), None);
    assert_eq!(
        file.ended(),
        Some(Ended {
            exit_code: None,
            elapsed_ms: 2030
        })
    );
    assert_eq!(file.output_end(), ("two\n".to_owned(), false));
}

#[test]
fn a_pattern_sees_the_output_only_and_one_line_at_a_time() {
    let pattern = LinePattern::new("^printf|exit_code|b$").unwrap_or_else(|fault| panic!("{fault}"));
    let mut file = TerminalFile::default();
    read(&mut file, &format!("{HEAD}a\n"), Some(&pattern));
    assert_eq!(file.matched(), None);
    read(&mut file, &format!("{HEAD}a\nab\r\nc"), Some(&pattern));
    assert_eq!(file.matched(), Some("ab"));
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let mut file = TerminalFile::default();
    let output: String = (0..20_000).map(|line| format!("{line:09}\n")).collect();
    read(&mut file, &format!("{HEAD}{output}"), None);
    assert_eq!(
        file.output_end(),
        (output[output.len() - 20_000..].to_owned(), true)
    );
    assert_eq!(file.output_bytes(), output.len());
}

#[test]
fn a_file_without_the_head_is_something_else() {
    for text in ["", "hello\n", "---\ncwd: \"/w\"\n"] {
        assert_eq!(TerminalFile::default().take(text, None), Err(NotATerminalFile));
    }
}
