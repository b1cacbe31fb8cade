-- Facts are only added: messages, revisions, calls, completions and cas rows are never updated or deleted.
-- What changes is small: a conversation's head and owner, a run's progress and end, a model call's end, a round's
-- state, and who is told of a delegation's end.
--
-- Every commit writes whole pages, so rows that each turn adds are kept short and in order: texts stand once,
-- in a table that gives them an integer `key`; other tables refer to the key. Without that, a long
-- conversation would split random pages and write more a turn than a short one.

-- Content-addressed bytes. The key is the SHA-256 of the bytes.
CREATE TABLE cas (
    hash  BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE conversations (
    key            INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    -- The revision that the owner's next append builds upon. Other branches live beside it.
    head_revision  BLOB NOT NULL REFERENCES revisions (id) DEFERRABLE INITIALLY DEFERRED,
    -- The one run that may move the head. NULL when nothing runs.
    active_run_key INTEGER REFERENCES runs (key)
) STRICT;

-- `id` is a SHA-256 derived from the conversation, the parent and the ordered message ids.
CREATE TABLE revisions (
    id               BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    conversation_key INTEGER NOT NULL REFERENCES conversations (key),
    -- NULL for the empty revision only.
    parent           BLOB REFERENCES revisions (id),
    -- Messages of the whole history up to and including this revision.
    message_count    INTEGER NOT NULL CHECK (message_count >= 0),
    -- Keys of the messages that the revision itself appended, in order, as a JSON array: in a table of their
    -- own they would cost every commit a page more. The store's integrity check follows them.
    appended         TEXT NOT NULL CHECK (json_array_length(appended) <= message_count),
    CHECK ((parent IS NULL) = (json_array_length(appended) = 0)),
    CHECK (parent IS NOT NULL OR message_count = 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    key              INTEGER PRIMARY KEY,
    conversation_key INTEGER NOT NULL REFERENCES conversations (key),
    id               TEXT NOT NULL,
    -- Versioned JSON, see store/row.rs. Images are references into `cas`.
    body             TEXT NOT NULL,
    UNIQUE (conversation_key, id)
) STRICT;

-- The images of a message.
CREATE TABLE message_blobs (
    message_key INTEGER NOT NULL REFERENCES messages (key),
    hash        BLOB NOT NULL REFERENCES cas (hash),
    PRIMARY KEY (message_key, hash)
) STRICT, WITHOUT ROWID;

-- The revision for which a client adapter published the state with this digest.
CREATE TABLE client_states (
    conversation_key INTEGER NOT NULL REFERENCES conversations (key),
    digest           BLOB NOT NULL CHECK (length(digest) = 32),
    revision         BLOB NOT NULL REFERENCES revisions (id),
    PRIMARY KEY (conversation_key, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    key                 INTEGER PRIMARY KEY,
    id                  TEXT NOT NULL UNIQUE,
    conversation_key    INTEGER NOT NULL REFERENCES conversations (key),
    -- The conversation in which the person speaks. No foreign key: it may be known to the client only.
    root_conversation_id TEXT NOT NULL,
    kind                TEXT NOT NULL CHECK (kind IN ('main', 'subagent')),
    subagent_kind       TEXT,
    -- No foreign key: the parent may be known to the client only.
    parent_run_id       TEXT,
    parent_call_id      TEXT,
    base_revision       BLOB NOT NULL REFERENCES revisions (id),
    model_id            TEXT NOT NULL,
    started_at_ms       INTEGER NOT NULL,
    -- Zero-based index of the latest model call, written before its HTTP request; and how many were written.
    provider_call_index INTEGER,
    provider_calls      INTEGER NOT NULL DEFAULT 0,
    -- Requests that broke their prefix without a declared reset: always a defect.
    prefix_breaks       INTEGER NOT NULL DEFAULT 0,
    -- What the client adapter keeps of how the prompt was made, and why it is not that of the conversation's run before.
    prompt_note         BLOB REFERENCES cas (hash),
    prompt_change       TEXT,
    -- NULL while the run goes on.
    outcome             TEXT CHECK (outcome IN ('completed', 'cancelled', 'failed', 'interrupted')),
    -- NULL for an interrupted run: nobody saw it end.
    ended_at_ms         INTEGER,
    superseded_by_key   INTEGER REFERENCES runs (key),
    failure_category    TEXT,
    provider_fault      TEXT,
    cause               TEXT,
    -- Sums over the run's model calls; NULL where an endpoint did not report.
    fresh_input_tokens  INTEGER,
    cache_read_tokens   INTEGER,
    cache_write_tokens  INTEGER,
    output_tokens       INTEGER,
    reasoning_tokens    INTEGER,
    CHECK ((kind = 'subagent') = (subagent_kind IS NOT NULL)),
    CHECK ((parent_run_id IS NULL) = (parent_call_id IS NULL)),
    CHECK (outcome IS NOT NULL OR ended_at_ms IS NULL),
    CHECK ((outcome = 'failed') = (failure_category IS NOT NULL)),
    CHECK (provider_fault IS NULL OR failure_category = 'provider')
) STRICT;

CREATE INDEX runs_of_conversation ON runs (conversation_key, started_at_ms);

CREATE TABLE tool_rounds (
    key             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    run_key         INTEGER NOT NULL REFERENCES runs (key),
    parent_revision BLOB NOT NULL REFERENCES revisions (id),
    -- Versioned JSON, see store/row.rs.
    said            TEXT NOT NULL,
    call_count      INTEGER NOT NULL CHECK (call_count > 0),
    started_at_ms   INTEGER NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('open', 'settled', 'abandoned'))
) STRICT;

-- A run waits for one round at a time.
CREATE UNIQUE INDEX open_round_of_run ON tool_rounds (run_key) WHERE state = 'open';

CREATE TABLE tool_calls (
    round_key INTEGER NOT NULL REFERENCES tool_rounds (key),
    position  INTEGER NOT NULL CHECK (position >= 0),
    call_id   TEXT NOT NULL,
    name      TEXT NOT NULL,
    arguments TEXT NOT NULL,
    PRIMARY KEY (round_key, position)
) STRICT, WITHOUT ROWID;

-- A call has a row here once its call/result pair is part of the history.
CREATE TABLE tool_completions (
    round_key      INTEGER NOT NULL,
    position       INTEGER NOT NULL,
    -- Zero-based order of completion in the round.
    completion_seq INTEGER NOT NULL CHECK (completion_seq >= 0),
    revision       BLOB NOT NULL REFERENCES revisions (id),
    PRIMARY KEY (round_key, position),
    FOREIGN KEY (round_key, position) REFERENCES tool_calls (round_key, position)
) STRICT, WITHOUT ROWID;

-- A call has started work in another conversation.
CREATE TABLE delegations (
    key                   INTEGER PRIMARY KEY,
    conversation_key      INTEGER NOT NULL REFERENCES conversations (key),
    call_id               TEXT NOT NULL,
    -- No foreign key: the work may not have begun yet.
    child_conversation_id TEXT NOT NULL,
    -- When the call began: the work is the child's first run from then on.
    since_ms              INTEGER NOT NULL,
    -- Whether the work goes on after the call has its result.
    background            INTEGER NOT NULL CHECK (background IN (0, 1)),
    -- Whom the end is told to since the conversation itself has ended, and the heir's call that the conversation worked for.
    heir_key              INTEGER REFERENCES conversations (key),
    heir_call_id          TEXT,
    CHECK ((heir_key IS NULL) = (heir_call_id IS NULL)),
    UNIQUE (conversation_key, call_id, child_conversation_id)
) STRICT;

-- The declared resets of the prefix: a revision that begins a history anew with a summary of another one, or with what
-- was shortened of it.
CREATE TABLE compactions (
    revision            BLOB NOT NULL PRIMARY KEY REFERENCES revisions (id),
    -- The head that it took the place of.
    archived            BLOB NOT NULL REFERENCES revisions (id),
    run_key             INTEGER NOT NULL REFERENCES runs (key),
    -- Zero-based index of the run's model call that made the summary; of a shortening, of the one that was refused.
    provider_call_index INTEGER NOT NULL CHECK (provider_call_index >= 0),
    reason              TEXT NOT NULL CHECK (reason IN ('threshold', 'refusal', 'shortening', 'manual'))
) STRICT, WITHOUT ROWID;

CREATE INDEX compactions_of_run ON compactions (run_key);

-- Who answers model calls: API, address, upstream model and a fingerprint of the key.
CREATE TABLE lineages (
    key  INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- One row for each body that was sent, as lengths and digests: the proof, across restarts, that a body extends the
-- one before it to the same lineage. Rows are only added; a call's end is written into its row once.
CREATE TABLE model_calls (
    key                INTEGER PRIMARY KEY,
    conversation_key   INTEGER NOT NULL REFERENCES conversations (key),
    run_key            INTEGER NOT NULL REFERENCES runs (key),
    lineage_key        INTEGER NOT NULL REFERENCES lineages (key),
    call_index         INTEGER NOT NULL CHECK (call_index >= 0),
    -- The head that the body's history stands for.
    revision           BLOB NOT NULL REFERENCES revisions (id),
    -- A digest over what is configured of the model and may decide how a history is written.
    settings           BLOB NOT NULL CHECK (length(settings) = 16),
    -- The body's items are the first `kept` ones of the lineage's last row that is not beside, then those in `added`: for each, one
    -- byte for its kind, four for its length (little endian), sixteen of its digest; sixteen more of the digest over its
    -- settled bytes, where the first byte says that those are some of its bytes.
    kept               INTEGER NOT NULL CHECK (kept >= 0),
    added              BLOB NOT NULL,
    -- It asks for something beside the conversation: the lineage's next body extends not this one but the one before.
    beside             INTEGER NOT NULL CHECK (beside IN (0, 1)),
    without_reasoning  INTEGER NOT NULL CHECK (without_reasoning IN (0, 1)),
    -- The declared reset that explains why the body does not extend the one before.
    reset              TEXT,
    -- Zero-based place of the first item that differs although no declared reset explains it.
    broken_item        INTEGER,
    -- NULL until the call's end is known.
    answered           INTEGER CHECK (answered IN (0, 1)),
    fresh_input_tokens INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    output_tokens      INTEGER,
    reasoning_tokens   INTEGER,
    CHECK (reset IS NULL OR broken_item IS NULL)
) STRICT;

CREATE INDEX model_calls_of_lineage ON model_calls (conversation_key, lineage_key);
