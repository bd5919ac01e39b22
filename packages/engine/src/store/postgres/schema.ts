/**
 * The tables, in numbered migrations. Expand in one version, contract in the next: daemons of both run side by side meanwhile.
 *
 * I1  Every append touches `heads` and nothing else of a session, so its rows are narrow and leave room for updates in place.
 * I2  An epoch starts with the timeline of the database: after a failover that lost commits, no epoch is given out twice.
 * I3  Times that decide something (`lease_until`, `wake_at`) are the database's. All others are text, as the daemons wrote them.
 * I4  A session that only a command wakes has the time `infinity`. One without any was left by an earlier version, and is looked at.
 */

/** What `heads.pin` may be at most for this version to claim a session: raised when a new event type makes older folds wrong. */
export const EVENTS_VERSION = 1

/** I2: the one line that belongs to this engine. It grows with every promotion and every restored backup. */
const ERA = `
CREATE FUNCTION bf_era() RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT ((SELECT restores FROM fleet) * 1000 + ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int)::bigint
    * 1000000000 $$;`

const VERSION_1 = `
CREATE TABLE fleet (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  schema int NOT NULL,
  schema_min int NOT NULL,
  system_id text NOT NULL,
  restores int NOT NULL DEFAULT 0
);
${ERA}
CREATE TABLE daemons (
  boot_id uuid PRIMARY KEY,
  name text NOT NULL,
  url text,
  version text NOT NULL,
  config_hash text NOT NULL DEFAULT '',
  state text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'draining', 'dead')),
  lease_until timestamptz NOT NULL,
  places int NOT NULL DEFAULT 1000000,
  barrier bigint NOT NULL DEFAULT 0,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE sessions (
  id uuid PRIMARY KEY,
  journal uuid NOT NULL,
  created_at text COLLATE "C" NOT NULL,
  updated_at text COLLATE "C" NOT NULL,
  data text NOT NULL,
  box_id text,
  title text NOT NULL,
  workspace text,
  deleting bool NOT NULL DEFAULT false,
  quarantined text,
  turn_state text,
  category text,
  class text,
  unknown_outcomes int NOT NULL DEFAULT 0,
  prompt text,
  turn text
);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE INDEX sessions_by_box ON sessions (box_id) WHERE box_id IS NOT NULL;
CREATE TABLE heads (
  session_id uuid PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  epoch bigint NOT NULL DEFAULT 0,
  owner uuid,
  owned_since timestamptz,
  last_seq int NOT NULL DEFAULT 0,
  head bytea NOT NULL,
  bytes bigint NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'idle',
  turn_id uuid,
  wake_at timestamptz,
  wait_for text,
  asked int NOT NULL DEFAULT 0,
  seen int NOT NULL DEFAULT 0,
  suspect smallint NOT NULL DEFAULT 0,
  set_aside bool NOT NULL DEFAULT false,
  pin smallint NOT NULL DEFAULT 1
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX heads_due ON heads (wake_at) WHERE owner IS NULL AND NOT set_aside AND (state <> 'idle' OR asked > seen);
CREATE INDEX heads_owned ON heads (owner) WHERE owner IS NOT NULL;
CREATE INDEX heads_waiting ON heads (wait_for) WHERE wait_for IS NOT NULL;
CREATE TABLE events (
  session_id uuid NOT NULL,
  seq int NOT NULL,
  epoch bigint NOT NULL,
  type text NOT NULL,
  turn_id uuid NOT NULL,
  body text NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE TABLE turns (
  turn_id uuid PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  view text NOT NULL,
  cancel text
);
CREATE INDEX turns_of ON turns (session_id, turn_id);
CREATE TABLE keys (
  scope text NOT NULL,
  key text NOT NULL,
  request_hash text NOT NULL,
  receipt text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (scope, key)
);
CREATE TABLE commands (
  id uuid PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  nr int NOT NULL,
  kind text NOT NULL CHECK (kind IN ('prompt', 'cancel', 'resume', 'delete', 'change', 'approve')),
  body text NOT NULL,
  key text,
  request_hash text,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  outcome text
);
CREATE INDEX commands_open ON commands (session_id, nr) WHERE outcome IS NULL;
CREATE UNIQUE INDEX commands_key ON commands (session_id, key) WHERE key IS NOT NULL;
CREATE TABLE runners (
  runner_id text PRIMARY KEY,
  boot_id text NOT NULL,
  url text NOT NULL,
  state text NOT NULL CHECK (state IN ('live', 'draining', 'lost')),
  verified_at timestamptz NOT NULL,
  last_seen timestamptz NOT NULL,
  capacity int NOT NULL,
  boxes int NOT NULL,
  labels text NOT NULL,
  workspaces text NOT NULL,
  isolation text NOT NULL,
  version text NOT NULL,
  machine text NOT NULL DEFAULT '',
  lost_because text
);
CREATE TABLE enrolments (
  code text PRIMARY KEY,
  runner_id text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE left_boxes (
  runner_id text NOT NULL,
  box_id text NOT NULL,
  epoch bigint NOT NULL,
  PRIMARY KEY (runner_id, box_id)
);
`

const VERSION_2 = `
CREATE TABLE faults (
  session_id uuid NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  seq int NOT NULL,
  turn_id uuid NOT NULL,
  at text COLLATE "C" NOT NULL,
  step int,
  attempt int,
  fingerprint text COLLATE "C" NOT NULL,
  category text NOT NULL,
  class text NOT NULL,
  boundary text NOT NULL,
  phase text,
  error text NOT NULL,
  error_raw text NOT NULL,
  became text NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE INDEX faults_by_group ON faults (fingerprint, at);
CREATE INDEX faults_by_time ON faults (at);
CREATE INDEX faults_unsettled ON faults (turn_id) WHERE became IN ('open', 'parked');
`

/** Every update of a row with a foreign key reads its old version once more: a twentieth of an append. Sessions are deleted in one place. */
const VERSION_3 = `
ALTER TABLE heads DROP CONSTRAINT IF EXISTS heads_session_id_fkey;
`

export type Migration = {
  readonly sql: string
  /** The oldest schema whose daemons may run beside this one. */
  readonly schemaMin: number
}

/** From each version to the next; the first one creates everything. */
export const MIGRATIONS: readonly Migration[] = [
  { sql: VERSION_1, schemaMin: 1 },
  { sql: VERSION_2, schemaMin: 1 }, // a daemon of version 1 counts no faults
  { sql: VERSION_3, schemaMin: 3 }, // a daemon of version 2 would leave the heads of deleted sessions behind
]

export const SCHEMA_VERSION = MIGRATIONS.length
