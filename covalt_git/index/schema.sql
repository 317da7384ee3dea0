-- The index: a cache of toolsets/ and of the chat stores.  It may be deleted at any time;
-- `covalt-git index rebuild` rebuilds all rows.  There are no migrations: the file's user_version
-- is a checksum of this text, so that a changed schema rebuilds the index.
--
-- Tables and columns are those of the specification (section 1); columns marked + are additions.
-- JSON columns hold canonical JSON (RFC 8785).  Booleans are 0 and 1.
-- Tables with long rows have row ids: in the tree of the key, such rows would need overflow pages.

-- Installed toolset packages: toolsets/<id>/toolset.yaml and toolsets/state/<id>.yaml.
CREATE TABLE toolsets (
    id               TEXT PRIMARY KEY,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    description      TEXT NOT NULL,
    enabled          INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    installed_at     TEXT,                        -- NULL: created in the project
    source_type      TEXT CHECK (source_type IN ('zip', 'local', 'url')),
    source_ref       TEXT,
    manifest_version TEXT NOT NULL,
    digest           TEXT NOT NULL                -- + sha256:<hex> of all its files
) STRICT, WITHOUT ROWID;

-- The files of a toolset's directory.
CREATE TABLE toolset_files (
    toolset_id  TEXT NOT NULL REFERENCES toolsets (id) ON DELETE CASCADE,
    path        TEXT NOT NULL,                    -- relative to the toolset
    kind        TEXT NOT NULL CHECK (kind IN ('python', 'artifact', 'asset', 'config')),
    sha256      TEXT NOT NULL,
    size        INTEGER NOT NULL,
    stored_path TEXT NOT NULL,                    -- relative to the project
    PRIMARY KEY (toolset_id, path)
) STRICT, WITHOUT ROWID;

-- Effective tools: declaration, Python source and overrides merged.
CREATE TABLE tools (
    tool_id               TEXT NOT NULL PRIMARY KEY,  -- 'app-builder:write_file'
    toolset_id            TEXT REFERENCES toolsets (id) ON DELETE CASCADE,  -- NULL: builtin
    name                  TEXT NOT NULL,
    description           TEXT NOT NULL,
    input_schema          TEXT NOT NULL CHECK (json_valid(input_schema)),
    requires_confirmation INTEGER NOT NULL CHECK (requires_confirmation IN (0, 1)),
    enabled               INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    entrypoint            TEXT,                   -- NULL: not a Python tool
    path                  TEXT NOT NULL UNIQUE,   -- + 'app-builder.write_file', for patterns
    definition            TEXT NOT NULL CHECK (json_valid(definition))  -- + models.tool.Tool
) STRICT;

-- + Searchable text of each row of `tools`: see search.py.  The rows of FTS5's own tables depend on the
-- order of writing; results do not.
CREATE VIRTUAL TABLE tool_search USING fts5 (
    name, toolset, description, parameters, parameter_texts, tags,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE tool_vocabulary USING fts5vocab (tool_search, row);

-- Overrides of tools, merged from the toolset and the project.
CREATE TABLE tool_overrides (
    id                    TEXT PRIMARY KEY,       -- '<toolset>/<tool>'
    toolset_id            TEXT NOT NULL REFERENCES toolsets (id) ON DELETE CASCADE,
    tool_id               TEXT NOT NULL,          -- of an MCP server: 'server:tool'
    renderer              TEXT,
    renderer_config       TEXT CHECK (renderer_config IS NULL OR json_valid(renderer_config)),
    name_override         TEXT,
    description_override  TEXT,
    requires_confirmation INTEGER CHECK (requires_confirmation IN (0, 1)),
    enabled               INTEGER CHECK (enabled IN (0, 1)),
    callers               TEXT CHECK (callers IS NULL OR json_valid(callers)),
    UNIQUE (toolset_id, tool_id)
) STRICT, WITHOUT ROWID;

-- + Prompts of toolsets.
CREATE TABLE toolset_prompts (
    id         TEXT PRIMARY KEY,                  -- 'handbook:review'
    toolset_id TEXT NOT NULL REFERENCES toolsets (id) ON DELETE CASCADE,
    definition TEXT NOT NULL CHECK (json_valid(definition))  -- models.prompts.Prompt
) STRICT;

-- + Resources of toolsets.
CREATE TABLE toolset_resources (
    id         TEXT PRIMARY KEY,                  -- 'handbook:style'
    toolset_id TEXT NOT NULL REFERENCES toolsets (id) ON DELETE CASCADE,
    definition TEXT NOT NULL CHECK (json_valid(definition))  -- models.prompts.Resource
) STRICT;

-- Declared MCP servers of toolsets.
CREATE TABLE toolset_mcp_servers (
    id                    TEXT NOT NULL,
    toolset_id            TEXT NOT NULL REFERENCES toolsets (id) ON DELETE CASCADE,
    server_type           TEXT NOT NULL CHECK (server_type IN ('stdio', 'sse', 'streamable-http')),
    enabled               INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    command               TEXT,
    args                  TEXT NOT NULL CHECK (json_valid(args)),
    cwd                   TEXT,
    url                   TEXT,
    headers               TEXT NOT NULL CHECK (json_valid(headers)),  -- references, never secrets
    env                   TEXT NOT NULL CHECK (json_valid(env)),      -- references, never secrets
    requires_confirmation INTEGER NOT NULL CHECK (requires_confirmation IN (0, 1)),
    created_at            TEXT,                   -- when the toolset was installed
    PRIMARY KEY (toolset_id, id)
) STRICT, WITHOUT ROWID;

-- + Signature and problems of each toolset at its last read.
-- A toolset with errors keeps the other rows of its last version without errors.
CREATE TABLE toolset_readings (
    toolset_id TEXT PRIMARY KEY,
    signature  TEXT NOT NULL,                     -- of the modes, sizes and times of its paths
    sound      INTEGER NOT NULL CHECK (sound IN (0, 1)),
    problems   TEXT NOT NULL CHECK (json_valid(problems)),
    tool_ids   TEXT NOT NULL CHECK (json_valid(tool_ids)),  -- declared now; null: the manifest cannot be read
    paths      BLOB NOT NULL,                     -- of the toolset, separated by NUL
    enabled    INTEGER NOT NULL CHECK (enabled IN (0, 1)),  -- in its state file
    lacks_grants INTEGER NOT NULL CHECK (lacks_grants IN (0, 1)),  -- of its requests; 0 if not sound
    namespaces TEXT NOT NULL CHECK (json_valid(namespaces)),  -- of its servers and sources: place, id, namespace
    installed_at TEXT                              -- in its state file; NULL: created in the project
) STRICT, WITHOUT ROWID;

-- Chats: data/chats/<id>/store.git.
CREATE TABLE chats (
    id                       TEXT PRIMARY KEY,
    title                    TEXT NOT NULL,
    created_at               TEXT NOT NULL,
    active_branch            TEXT NOT NULL,
    active_leaf_message_id   TEXT,
    active_manifest_id       TEXT,
    forked_from              TEXT CHECK (forked_from IS NULL OR json_valid(forked_from)),  -- + {chat_id, manifest_id}
    made_by                  TEXT,                -- + agent:NAME; NULL: a user
    refs                     TEXT NOT NULL CHECK (json_valid(refs))  -- + HEAD and every ref, as read
) STRICT, WITHOUT ROWID;

-- Workspace manifests: the commits of a chat's branches.  `files`, {path: sha256}, is computed from
-- the tree and `blobs`, because stored it would repeat all paths in every manifest.
CREATE TABLE workspace_manifests (
    id         TEXT NOT NULL,                     -- the full commit id
    chat_id    TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    parent_id  TEXT,
    tree_id    TEXT NOT NULL,                     -- +
    created_at TEXT NOT NULL,
    source     TEXT NOT NULL CHECK (source IN (
                   'tool_run', 'message', 'user_upload', 'edit', 'restore', 'merge', 'push')),
    -- Id of the call, message or other record; the commit id of foreign commits.
    source_ref TEXT,
    parents    TEXT NOT NULL CHECK (json_valid(parents)),  -- + all of them, parent_id the first
    message_id TEXT,                              -- + its message
    leaf_message_id TEXT,                         -- + newest message of it and its first-parent ancestors
    previous_message_id TEXT,                     -- + of a message: the leaf of its first parent
    title      TEXT NOT NULL,                     -- + summary in one line
    by         TEXT NOT NULL,                     -- + user or agent
    changed_files INTEGER NOT NULL,               -- + against parent_id
    undone_call TEXT,                             -- + the call that it undoes
    -- + History is sorted by these two and the id, parents before children.
    moment     TEXT NOT NULL,                     -- + created_at without Z, or a parent's if later
    generation INTEGER NOT NULL,                  -- + 1, or one more than its parents' greatest
    PRIMARY KEY (chat_id, id)                     -- a fork shares commits with its origin
) STRICT, WITHOUT ROWID;

-- + Content hashes for `files`, of the files that were asked for: see content_facts.py.
CREATE TABLE blobs (
    chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    oid     TEXT NOT NULL,                        -- git blob id
    sha256  TEXT NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (chat_id, oid)
) STRICT, WITHOUT ROWID;

-- + Changed lines of text files, of the commits that were asked for.
CREATE TABLE line_counts (
    chat_id       TEXT NOT NULL,
    manifest_id   TEXT NOT NULL,
    added_lines   INTEGER NOT NULL,
    deleted_lines INTEGER NOT NULL,
    PRIMARY KEY (chat_id, manifest_id),
    FOREIGN KEY (chat_id, manifest_id) REFERENCES workspace_manifests (chat_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Tool calls: finished ones from their commits, the others from refs/covalt/calls.
CREATE TABLE tool_calls (
    id               TEXT NOT NULL,
    chat_id          TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    message_id       TEXT,
    tool_id          TEXT NOT NULL,
    args             TEXT NOT NULL CHECK (json_valid(args)),
    result           TEXT CHECK (result IS NULL OR json_valid(result)),
    render_plan      TEXT CHECK (render_plan IS NULL OR json_valid(render_plan)),
    status           TEXT NOT NULL CHECK (status IN ('pending', 'running', 'success', 'error')),
    error            TEXT,                        -- 'code: message'
    started_at       TEXT NOT NULL,
    finished_at      TEXT,
    pre_manifest_id  TEXT,
    post_manifest_id TEXT,
    object           TEXT NOT NULL,               -- + the argument that names it, or ''
    PRIMARY KEY (chat_id, id)
) STRICT;

-- Approvals: refs/covalt/approvals.  Access is never decided by this table.
CREATE TABLE approvals (
    execution_id TEXT NOT NULL,
    call_id      TEXT NOT NULL,
    chat_id      TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    tool_id      TEXT NOT NULL,
    args         TEXT NOT NULL CHECK (json_valid(args)),
    reasons      TEXT NOT NULL CHECK (json_valid(reasons)),
    state        TEXT NOT NULL CHECK (state IN (
                     'pending', 'approved', 'denied', 'expired', 'superseded')),
    requested_by TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    expires_at   TEXT NOT NULL,
    decided_by   TEXT,
    decided_at   TEXT,
    role         TEXT,                            -- of the caller
    branch       TEXT NOT NULL,                   -- of the call
    base         TEXT,                            -- head of the branch at the request
    superseded_by TEXT,                           -- the approval that replaces it
    PRIMARY KEY (chat_id, execution_id)
) STRICT, WITHOUT ROWID;

-- + Words of messages, of the arguments of calls, and of files: see search_words.py.  The row ids of messages and
-- calls begin with their times, so that the newest are found first, however the index was built.  Without the index of
-- prefixes, all words that begin with two letters would be merged before the first row is found.
CREATE TABLE message_texts (
    id          INTEGER PRIMARY KEY,
    chat_id     TEXT NOT NULL,
    manifest_id TEXT NOT NULL,
    UNIQUE (chat_id, manifest_id),
    FOREIGN KEY (chat_id, manifest_id) REFERENCES workspace_manifests (chat_id, id) ON DELETE CASCADE
) STRICT;
CREATE VIRTUAL TABLE message_words USING fts5 (words, tokenize = 'ascii', prefix = '2 3');
CREATE VIRTUAL TABLE argument_words USING fts5 (words, tokenize = 'ascii', prefix = '2 3');

-- + Files of the active branch of each chat, updated by searches only: see file_rows.py.
CREATE TABLE active_files (
    id         INTEGER PRIMARY KEY,
    chat_id    TEXT NOT NULL,
    path       TEXT NOT NULL,
    oid        TEXT NOT NULL,                     -- git blob id
    content_id INTEGER,                           -- NULL: its text is not indexed
    reason     TEXT CHECK (reason IN ('binary', 'large', 'full')),  -- why it is not
    UNIQUE (chat_id, path)
) STRICT;
CREATE TABLE active_trees (
    chat_id  TEXT PRIMARY KEY,
    tree_id  TEXT,                                -- NULL: files are pending
    pending  INTEGER NOT NULL,                    -- files that are not indexed yet
    left_out INTEGER NOT NULL                     -- files over the limit of a chat
) STRICT, WITHOUT ROWID;
CREATE TABLE file_contents (
    id   INTEGER PRIMARY KEY,
    oid  TEXT NOT NULL UNIQUE,                    -- the same text in several files and chats is indexed once
    size INTEGER NOT NULL
) STRICT;
CREATE VIRTUAL TABLE name_words USING fts5 (words, tokenize = 'ascii', prefix = '2 3');
CREATE VIRTUAL TABLE content_words USING fts5 (words, tokenize = 'ascii', prefix = '2 3');

CREATE INDEX tools_by_toolset ON tools (toolset_id);
CREATE INDEX prompts_by_toolset ON toolset_prompts (toolset_id);
CREATE INDEX resources_by_toolset ON toolset_resources (toolset_id);
CREATE INDEX manifests_in_order ON workspace_manifests (chat_id, moment, generation, id);
CREATE INDEX manifests_by_source ON workspace_manifests (chat_id, source_ref);
CREATE INDEX manifests_by_message ON workspace_manifests (chat_id, message_id);
CREATE INDEX messages_by_previous ON workspace_manifests (chat_id, previous_message_id)
    WHERE source = 'message';
CREATE INDEX merges ON workspace_manifests (chat_id) WHERE source = 'merge';
CREATE INDEX tool_calls_by_start ON tool_calls (chat_id, started_at);
CREATE INDEX undos_by_call ON workspace_manifests (chat_id, undone_call) WHERE undone_call IS NOT NULL;
CREATE INDEX approvals_by_call ON approvals (chat_id, call_id);
CREATE INDEX approvals_by_state ON approvals (state, created_at);

CREATE INDEX files_by_content ON active_files (content_id);
CREATE INDEX files_by_reason ON active_files (chat_id, reason) WHERE reason IS NOT NULL;

CREATE TRIGGER delete_tool_search AFTER DELETE ON tools BEGIN
    DELETE FROM tool_search WHERE rowid = old.rowid;
END;
CREATE TRIGGER delete_message_words AFTER DELETE ON message_texts BEGIN
    DELETE FROM message_words WHERE rowid = old.id;
END;
CREATE TRIGGER delete_argument_words AFTER DELETE ON tool_calls BEGIN
    DELETE FROM argument_words WHERE rowid = old.rowid;
END;
CREATE TRIGGER delete_name_words AFTER DELETE ON active_files BEGIN
    DELETE FROM name_words WHERE rowid = old.id;
END;
CREATE TRIGGER delete_content_words AFTER DELETE ON file_contents BEGIN
    DELETE FROM content_words WHERE rowid = old.id;
END;
