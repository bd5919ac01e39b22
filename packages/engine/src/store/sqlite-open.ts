/** Opens a state folder's database: one owner, settings that survive a power cut, a versioned schema. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Fault } from '@breakfall/faults'
import { type FileLock, lockFile } from '@breakfall/supervisor/platform'
import { FAULTS_TABLE } from './sqlite-faults.ts'
import { storeFault } from './store-fault.ts'

export const SCHEMA_VERSION = 7

/** A second daemon is refused. */
export function lockFolder(folder: string): FileLock {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  let lock: FileLock | undefined
  try {
    lock = lockFile(join(folder, 'owner.db'))
  } catch (cause) {
    throw storeFault(cause) // disk full, no permission, damaged: not a second owner
  }
  if (lock !== undefined) return lock
  throw new Fault('lease_lost', {
    boundary: 'journal',
    error: `Another daemon owns the state folder ${folder}. Stop it first, or use another --state-dir.`,
  })
}

export function openDatabase(file: string, options: { readonly pagesMax?: number | undefined } = {}): DatabaseSync {
  const db = openPrivate(file)
  db.exec('PRAGMA auto_vacuum=INCREMENTAL') // takes effect in a new file only, and before anything is written to it
  db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY')
  db.exec(`PRAGMA wal_autocheckpoint=${CHECKPOINT_PAGES}; PRAGMA cache_size=-${CACHE_KIB}`)
  const version = Number(db.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0)
  if (version > SCHEMA_VERSION) {
    db.close()
    throw new Fault('journal_corrupt', {
      error: `A newer version wrote the journal (schema ${version}, this version knows ${SCHEMA_VERSION}). Run that version.`,
    })
  }
  if (version < SCHEMA_VERSION) {
    const steps = version === 0 ? [SCHEMA] : MOVES.slice(version - 1)
    db.exec(`BEGIN; ${steps.join('')} PRAGMA user_version=${SCHEMA_VERSION}; COMMIT`)
    if (version > 0) enableShrinking(db)
  }
  if (options.pagesMax !== undefined) db.exec(`PRAGMA max_page_count=${options.pagesMax}`)
  return db
}

/** An event's key: its session and its seq in one integer, for 16 million events in each of half a billion sessions. */
export const SEQS_PER_SESSION = 2 ** 24

/** What an event takes on disk besides its body, roughly: its key, its hash, its turn and the page around it. */
export const EVENT_BYTES = 120

/** The index holds every 64th event of a session: a commit of many sessions then touches few of its pages. */
export const IS_MARKED = 'key % 64 = 0'

// ---- details ----

/** Prompts and outputs are private. SQLite gives its log the mode of the database. */
function openPrivate(file: string): DatabaseSync {
  closeSync(openSync(file, 'a', 0o600))
  return new DatabaseSync(file)
}

/**
 * A file from before version 4 can only grow: SQLite rebuilds it once. That takes as much free space as the file itself; without it
 * the file keeps its size and reuses the space of deleted sessions.
 */
function enableShrinking(db: DatabaseSync): void {
  try {
    db.exec('PRAGMA auto_vacuum=INCREMENTAL; VACUUM')
  } catch {
    // The disk is too full, or a reader is looking at it. The journal is complete and unchanged.
  }
}

/** 32 MiB between checkpoints: each checkpoint costs two more fdatasyncs, and reading the log back is fast. */
const CHECKPOINT_PAGES = 8_000

/** Holds what is read twice: a page of events is first located, then read. */
const CACHE_KIB = 32 * 1024

/** Every append touches `heads`, so its rows are narrow: the heads of a thousand sessions fit into a handful of pages. */
const EVENTS = `
CREATE TABLE heads (
  sid INTEGER PRIMARY KEY REFERENCES sessions(sid) ON DELETE CASCADE,
  last_seq INTEGER NOT NULL DEFAULT 0,
  head INTEGER,
  bytes INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  key INTEGER NOT NULL,
  prev INTEGER,
  epoch INTEGER NOT NULL,
  type TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  body TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_marked ON events(key) WHERE ${IS_MARKED};
`

/** Indexes to find sessions that ended long ago, and the few whose box id differs from the session's id. */
const ENDED = `
CREATE INDEX sessions_ended ON sessions(updated_at) WHERE state = 'idle';
CREATE INDEX sessions_by_box ON sessions(json_extract(data, '$.box.id')) WHERE json_extract(data, '$.box.id') IS NOT NULL;
`

/** Deleted sessions whose events are still to be removed, and where those events are. */
const REMOVED = `
CREATE TABLE removed (
  sid INTEGER PRIMARY KEY,
  last_seq INTEGER NOT NULL,
  head INTEGER
) STRICT;
`

/** What a list shows and filters by, next to the session: a list reads no journal. `turn` is the summary of the last turn. */
const SUMMARY_COLUMNS = [
  '  last_turn_id TEXT',
  '  turn_state TEXT',
  '  category TEXT',
  '  class TEXT',
  '  unknown_outcomes INTEGER NOT NULL DEFAULT 0',
  '  turn TEXT',
]

/**
 * Who works on a session: an owner is an opening of this store, so after a restart no session has an owner. `wake_at` is when a session
 * without an owner is due: the empty text is before every time, `never` after all of them.
 */
const OWNER_COLUMNS = [
  '  owner TEXT',
  "  wake_at TEXT NOT NULL DEFAULT ''",
  '  wait_for TEXT',
  '  suspect INTEGER NOT NULL DEFAULT 0',
]

const SCHEMA = `
CREATE TABLE sessions (
  sid INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  journal TEXT NOT NULL,
  created_at TEXT NOT NULL,
  data TEXT NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL DEFAULT 'idle',
  turn_id TEXT,
  quarantined TEXT,
  updated_at TEXT NOT NULL,
${[...SUMMARY_COLUMNS, ...OWNER_COLUMNS].join(',\n')}
) STRICT;
CREATE INDEX sessions_unfinished ON sessions(state) WHERE state <> 'idle';
CREATE TABLE turns (
  turn_id TEXT PRIMARY KEY,
  sid INTEGER NOT NULL REFERENCES sessions(sid) ON DELETE CASCADE,
  view TEXT NOT NULL,
  cancel TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_by_session ON turns(sid);
CREATE TABLE keys (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  receipt TEXT NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
${EVENTS}${REMOVED}${ENDED}${FAULTS_TABLE}`

/** As versions 2 and 3 had them. */
const EVENTS_3 = EVENTS.replace(/,\n {2}bytes .*/, '')

/** Version 1 stored events sorted by key, so the key becomes the row id. The migration repairs nothing. */
const FROM_VERSION_1 = `
ALTER TABLE events RENAME TO events_1;
${EVENTS_3}
INSERT INTO events(id, key, prev, epoch, type, turn_id, body, hash)
  SELECT key, key, CASE WHEN key % ${SEQS_PER_SESSION} > 1 THEN key - 1 END, epoch, type, turn_id, body, hash
  FROM events_1 ORDER BY key;
INSERT INTO heads(sid, last_seq, head)
  SELECT sid, last_seq, CASE WHEN last_seq > 0 THEN sid * ${SEQS_PER_SESSION} + last_seq END FROM sessions;
DROP TABLE events_1;
ALTER TABLE sessions DROP COLUMN last_seq;
ALTER TABLE sessions DROP COLUMN head_hash;
`

/** A session was last active at the time of its last event. An event that cannot be read is found when its session is loaded. */
const FROM_VERSION_3 = `
ALTER TABLE heads ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE heads SET bytes = size FROM (
  SELECT key / ${SEQS_PER_SESSION} AS of_sid, sum(length(body) + ${EVENT_BYTES}) AS size FROM events GROUP BY 1
) WHERE of_sid = sid;
ALTER TABLE sessions ADD COLUMN updated_at TEXT NOT NULL DEFAULT '';
UPDATE sessions SET updated_at = coalesce((
  SELECT CASE WHEN json_valid(body) THEN json_extract(body, '$.at') END
  FROM heads JOIN events ON events.id = heads.head WHERE heads.sid = sessions.sid
), created_at);
${ENDED}`

/** The summaries of turns that ended before there were summaries, from their views. A summary's title is that of its category. */
const FROM_VERSION_4 = `
${SUMMARY_COLUMNS.map((column) => `ALTER TABLE sessions ADD COLUMN ${column};`).join('\n')}
UPDATE sessions SET last_turn_id=(
  SELECT max(t.turn_id) FROM turns t WHERE t.sid=sessions.sid AND json_extract(t.view, '$.prompt') IS NOT NULL
);
UPDATE sessions SET (turn_state, category, class, turn) = (
  SELECT
    view ->> '$.state',
    view ->> '$.fault.category',
    view ->> '$.fault.class',
    json_object(
      'id', t.turn_id,
      'state', view ->> '$.state',
      'prompt', substr(view ->> '$.prompt', 1, 200),
      'steps', coalesce(view ->> '$.steps', 0),
      'attempts', coalesce(view ->> '$.attempts', 0),
      'faultsSurvived', coalesce(view ->> '$.faultsSurvived', 0),
      'unknownOutcomes', 0,
      'startedAt', view ->> '$.startedAt',
      'endedAt', view ->> '$.endedAt',
      'fault', CASE WHEN view ->> '$.fault.category' IS NULL THEN NULL ELSE json_object(
        'category', view ->> '$.fault.category',
        'class', view ->> '$.fault.class',
        'title', view ->> '$.fault.category',
        'error', coalesce(view ->> '$.fault.error', '')
      ) END,
      'parked', json(view -> '$.parked'),
      'retry', NULL,
      'marks', ''
    )
  FROM turns t WHERE t.turn_id=sessions.last_turn_id
) WHERE last_turn_id IS NOT NULL;
`

const FROM_VERSION_5 = OWNER_COLUMNS.map((column) => `ALTER TABLE sessions ADD COLUMN ${column};`).join('\n')

/** From each version to the next. */
const MOVES = [FROM_VERSION_1, REMOVED, FROM_VERSION_3, FROM_VERSION_4, FROM_VERSION_5, FAULTS_TABLE]
