/** Opens a state folder's database: sole owner, settings that survive a power cut, a schema that knows its version. */
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Fault } from '@breakfall/faults'
import { storeFault } from './sqlite-commit.ts'

export const SCHEMA_VERSION = 3

/**
 * Node has no file locks. A transaction held on a database of its own is one: a second process is refused, and the kernel
 * lets go of it when the owner dies, however it dies.
 */
export function lockFolder(folder: string): DatabaseSync {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const owner = openPrivate(join(folder, 'owner.db'))
  try {
    owner.exec('PRAGMA journal_mode=DELETE; BEGIN EXCLUSIVE')
    return owner
  } catch (cause) {
    owner.close()
    if (!isTaken(cause)) throw storeFault(cause) // no room, no rights, damaged: nobody need own it
    throw new Fault('lease_lost', {
      boundary: 'journal',
      error: `another daemon owns the state folder ${folder}; stop that one first, or use another --state-dir.`,
      cause,
    })
  }
}

export function openDatabase(file: string, options: { readonly pagesMax?: number | undefined } = {}): DatabaseSync {
  const db = openPrivate(file)
  db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY')
  db.exec(`PRAGMA wal_autocheckpoint=${CHECKPOINT_PAGES}; PRAGMA cache_size=-${CACHE_KIB}`)
  const version = Number(db.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0)
  if (version > SCHEMA_VERSION) {
    db.close()
    throw new Fault('journal_corrupt', {
      error: `the journal was written by a newer version (schema ${version}, this one knows ${SCHEMA_VERSION}); start that version again.`,
    })
  }
  if (version < SCHEMA_VERSION) {
    const steps = version === 0 ? [SCHEMA] : MOVES.slice(version - 1)
    db.exec(`BEGIN; ${steps.join('')} PRAGMA user_version=${SCHEMA_VERSION}; COMMIT`)
  }
  if (options.pagesMax !== undefined) db.exec(`PRAGMA max_page_count=${options.pagesMax}`)
  return db
}

/** An event's key: its session and its seq in one integer. Room for 16 million events in each of half a billion sessions. */
export const SEQS_PER_SESSION = 2 ** 24

/** Every 64th event of a session is in the index: a commit of many sessions then touches few of its pages. */
export const IS_MARKED = 'key % 64 = 0'

// ---- details ----

/** Prompts and outputs are nobody else's business. SQLite gives its log the mode of the database. */
function openPrivate(file: string): DatabaseSync {
  closeSync(openSync(file, 'a', 0o600))
  return new DatabaseSync(file)
}

const SQLITE_BUSY = 5

const isTaken = (error: unknown): boolean => ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY

/** 32 MiB between checkpoints: each costs two more fdatasyncs, and the log is read back in a blink. */
const CHECKPOINT_PAGES = 8_000

/** Room for what is read again and again: a page of events is found first, then read. */
const CACHE_KIB = 32 * 1024

/** What every append touches is kept narrow: the ends of a thousand sessions are a handful of pages. */
const EVENTS = `
CREATE TABLE heads (
  sid INTEGER PRIMARY KEY REFERENCES sessions(sid) ON DELETE CASCADE,
  last_seq INTEGER NOT NULL DEFAULT 0,
  head INTEGER
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

/** What is left of deleted sessions: where their events are found. */
const REMOVED = `
CREATE TABLE removed (
  sid INTEGER PRIMARY KEY,
  last_seq INTEGER NOT NULL,
  head INTEGER
) STRICT;
`

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
  quarantined TEXT
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
${EVENTS}${REMOVED}`

/** Version 1 had its events sorted by key, which serves as the row of what was written then. Nothing is mended on the way. */
const FROM_VERSION_1 = `
ALTER TABLE events RENAME TO events_1;
${EVENTS}
INSERT INTO events(id, key, prev, epoch, type, turn_id, body, hash)
  SELECT key, key, CASE WHEN key % ${SEQS_PER_SESSION} > 1 THEN key - 1 END, epoch, type, turn_id, body, hash
  FROM events_1 ORDER BY key;
INSERT INTO heads(sid, last_seq, head)
  SELECT sid, last_seq, CASE WHEN last_seq > 0 THEN sid * ${SEQS_PER_SESSION} + last_seq END FROM sessions;
DROP TABLE events_1;
ALTER TABLE sessions DROP COLUMN last_seq;
ALTER TABLE sessions DROP COLUMN head_hash;
`

/** From each version to the next. */
const MOVES = [FROM_VERSION_1, REMOVED]
