/**
 * Appends of many sessions as one statement. Pure. A session whose epoch or seq does not fit is missing from the answer, and nothing of
 * it is written; the others are not affected.
 */
import { EVENT_BYTES } from '../sqlite-open.ts'
import { textIn } from '../sqlite-statements.ts'
import type { Append, SessionData } from '../store.ts'
import { bigints, byteas, ints, texts, uuids } from './binary-array.ts'
import type { PgAnswer, PgValue } from './connection.ts'
import { faultParts, faultValues } from './fault-rows.ts'
import type { Parameters } from './parameters.ts'
import { type Hashed, readPlain, readSingle } from './sent-appends.ts'
import { clean } from './values.ts'

/** A row that another transaction holds must not stop everyone: after two seconds the batch is taken apart. */
const IN_TIME = `t AS (SELECT set_config('lock_timeout', '2s', true))`

/** The same as a condition, which is evaluated once, before the first row. */
const IN_TIME_ONCE = `(SELECT set_config('lock_timeout', '2s', true)) <> ''`

const EVENTS = `
INSERT INTO events (session_id, seq, epoch, type, turn_id, body, hash)
SELECT e.session_id, e.seq, h.epoch, e.type, e.turn_id, e.body, e.hash
FROM unnest($7::uuid[], $8::int[], $9::text[], $10::uuid[], $11::text[], $12::bytea[])
  AS e(session_id, seq, type, turn_id, body, hash) JOIN h USING (session_id)`

/** One row: 64 of them take a tenth of an append's time. */
const WRITTEN = `SELECT coalesce(string_agg(session_id::text, ','), '') AS written FROM h`

const PLAIN = `
WITH ${IN_TIME},
a AS (
  SELECT a.* FROM t, unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::bytea[], $6::int[])
    AS a(session_id, epoch, after, n, head, bytes)
),
h AS (
  UPDATE heads h SET last_seq = a.after + a.n, head = a.head, bytes = h.bytes + a.bytes FROM a
  WHERE h.session_id = a.session_id AND h.epoch = a.epoch AND h.last_seq = a.after
  RETURNING h.session_id, h.epoch
)
${EVENTS}`

/**
 * One event each, as nearly all have: each row carries its event, and no list of the written ones is put together. The arrays are taken
 * apart row by row; in FROM, the server would store each column first.
 */
const SINGLE = `
WITH h AS (
  UPDATE heads h SET last_seq = a.after + 1, head = a.hash, bytes = h.bytes + a.bytes
  FROM (
    SELECT unnest($1::uuid[]) AS session_id, unnest($2::bigint[]) AS epoch, unnest($3::int[]) AS after, unnest($4::int[]) AS bytes,
      unnest($5::text[]) AS type, unnest($6::uuid[]) AS turn_id, unnest($7::text[]) AS body, unnest($8::bytea[]) AS hash
  ) a
  WHERE h.session_id = a.session_id AND h.epoch = a.epoch AND h.last_seq = a.after AND ${IN_TIME_ONCE}
  RETURNING h.session_id, h.last_seq, h.epoch, a.type, a.turn_id, a.body, a.hash
)
INSERT INTO events (session_id, seq, epoch, type, turn_id, body, hash) SELECT * FROM h`

const FULL = `
WITH ${IN_TIME},
a AS (
  SELECT a.* FROM t, unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::bytea[], $6::int[], $13::text[], $14::uuid[],
    $15::bool[], $16::timestamptz[], $17::text[], $18::int[], $19::int[])
    AS a(session_id, epoch, after, n, head, bytes, state, turn_id, release, wake_at, wait_for, suspect, seen)
),
o AS (SELECT * FROM unnest($20::uuid[], $21::uuid[], $22::text[], $23::bool[]) AS o(session_id, id, outcome, refused)),
k AS (SELECT id FROM commands WHERE id = ANY ($21::uuid[]) AND outcome IS NULL FOR UPDATE),
h AS (
  UPDATE heads h SET
    last_seq = a.after + a.n,
    head = CASE WHEN a.n > 0 THEN a.head ELSE h.head END,
    bytes = h.bytes + a.bytes,
    state = coalesce(a.state, h.state),
    turn_id = CASE WHEN a.state IS NULL THEN h.turn_id ELSE a.turn_id END,
    owner = CASE WHEN a.release THEN NULL ELSE h.owner END,
    seen = coalesce(a.seen, h.seen),
    wake_at = CASE
      WHEN NOT a.release THEN h.wake_at
      WHEN h.asked > coalesce(a.seen, h.seen) THEN clock_timestamp()
      ELSE a.wake_at
    END,
    wait_for = CASE WHEN a.release THEN a.wait_for ELSE h.wait_for END,
    suspect = coalesce(a.suspect, h.suspect)
  FROM a
  WHERE h.session_id = a.session_id AND h.epoch = a.epoch AND h.last_seq = a.after
    AND NOT EXISTS (SELECT 1 FROM o WHERE o.session_id = a.session_id AND o.id NOT IN (SELECT id FROM k))
  RETURNING h.session_id, h.epoch
),
e AS (${EVENTS}),
v AS (
  INSERT INTO turns (turn_id, session_id, view, cancel)
  SELECT v.turn_id, v.session_id, v.view, v.cancel
  FROM unnest($24::uuid[], $25::uuid[], $26::text[], $27::text[]) AS v(turn_id, session_id, view, cancel) JOIN h USING (session_id)
  ON CONFLICT (turn_id) DO UPDATE SET view = excluded.view, cancel = excluded.cancel
),
s AS (
  UPDATE sessions s SET
    updated_at = coalesce(d.updated_at, s.updated_at),
    data = coalesce(d.data, s.data),
    box_id = CASE WHEN d.data IS NULL THEN s.box_id ELSE d.box_id END,
    title = coalesce(d.title, s.title),
    workspace = CASE WHEN d.data IS NULL THEN s.workspace ELSE d.workspace END,
    turn_state = CASE WHEN d.summary THEN d.turn_state ELSE s.turn_state END,
    category = CASE WHEN d.summary THEN d.category ELSE s.category END,
    class = CASE WHEN d.summary THEN d.class ELSE s.class END,
    unknown_outcomes = CASE WHEN d.summary THEN d.unknown_outcomes ELSE s.unknown_outcomes END,
    prompt = CASE WHEN d.summary THEN d.prompt ELSE s.prompt END,
    turn = CASE WHEN d.summary THEN d.turn ELSE s.turn END
  FROM unnest($28::uuid[], $29::text[], $30::text[], $31::text[], $32::text[], $33::text[], $34::bool[], $35::text[], $36::text[],
    $37::text[], $38::int[], $39::text[], $40::text[])
    AS d(id, updated_at, data, box_id, title, workspace, summary, turn_state, category, class, unknown_outcomes, prompt, turn)
    JOIN h ON h.session_id = d.id
  WHERE s.id = d.id
),
y AS (
  INSERT INTO keys (scope, key, request_hash, receipt)
  SELECT y.scope, y.key, y.request_hash, y.receipt
  FROM unnest($41::uuid[], $42::text[], $43::text[], $44::text[], $45::text[]) AS y(session_id, scope, key, request_hash, receipt)
  JOIN h USING (session_id)
),
c AS (
  UPDATE commands c SET outcome = o.outcome, key = CASE WHEN o.refused THEN NULL ELSE c.key END
  FROM o JOIN h USING (session_id) WHERE c.id = o.id
)`

/** What it writes to a session. `bytes`: the statement's own, or a copy. */
export type AppendOf = (sessionId: string, bytes: Buffer) => Hashed | undefined

export type Statement = {
  readonly text: string
  readonly values: readonly PgValue[]
  /** Its answer has no rows, and all its values are in these parameters. */
  readonly bound?: Parameters
  readonly appendOf: AppendOf
}

/** The values are in `parameters` until the next statement is made there. */
export function appendStatement(batch: readonly Hashed[], parameters: Parameters): Statement {
  parameters.clear()
  const appends = batch.map(({ append }) => append)
  const isPlainBatch = appends.every(isPlain)
  if (isPlainBatch && appends.every(({ events }) => events.length === 1)) {
    addSingle(parameters, batch)
    return { text: SINGLE, values: parameters.values, bound: parameters, appendOf: readSingle }
  }
  addPlain(parameters, batch)
  if (isPlainBatch) return { text: PLAIN, values: parameters.values, bound: parameters, appendOf: readPlain }
  const appendOf: AppendOf = (id) => batch.find(({ append }) => append.sessionId === id)
  const full = [...parameters.values, ...more(appends)]
  const noted = appends.filter(({ faults }) => faults !== undefined)
  if (noted.length === 0) return { text: `${FULL} ${WRITTEN}`, values: full, appendOf }
  const values = [...full, ...faultValues(noted)]
  return { text: `${FULL}, ${faultParts(full.length + 1)} ${WRITTEN}`, values, appendOf }
}

/**
 * The sessions whose append was certainly written. Without a row there is only a count of events: if one is missing, each session has
 * to be looked up.
 */
export function writtenIn(batch: readonly Hashed[], { rows: [row], count }: PgAnswer): ReadonlySet<string> {
  if (row !== undefined) return new Set(textIn(row, 'written').split(','))
  const events = batch.reduce((sum, { append }) => sum + append.events.length, 0)
  return new Set(count === events ? batch.map(({ append }) => append.sessionId) : [])
}

/** Deltas only, as most are: no state, no turn, no key. */
export const isPlain = (append: Append): boolean =>
  append.events.length > 0 && MORE.every((part) => append[part] === undefined)

/** Its own statement: a taken key or a withdrawn command must not affect others. */
export const isAlone = ({ key, outcomes = [] }: Append): boolean => key !== undefined || outcomes.length > 0

export const bytea = (hex: string): string => `\\x${hex}`

/** What a session is searched by, beside its data. PostgreSQL's text has neither NUL nor half a character. */
export function searchable({
  title,
  box,
}: SessionData): Readonly<Record<'boxId' | 'title' | 'workspace', string | null>> {
  return { boxId: clean(box.id ?? null), title: clean(title ?? ''), workspace: clean(box.workspace ?? null) }
}

// ---- details ----

function addSingle(to: Parameters, batch: readonly Hashed[]): void {
  const appends = batch.map(({ append }) => append)
  const events = appends.flatMap((append) => append.events)
  uuids(to, appends, ({ sessionId }) => sessionId)
  bigints(to, appends, ({ epoch }) => epoch)
  ints(to, appends, ({ after }) => after)
  ints(to, appends, bytesOf)
  texts(to, events, ({ type }) => type)
  uuids(to, events, ({ turnId }) => turnId)
  texts(to, events, ({ body }) => body)
  byteas(to, batch, ({ head }) => head)
}

function addPlain(to: Parameters, batch: readonly Hashed[]): void {
  const appends = batch.map(({ append }) => append)
  const events = batch.flatMap(({ append, hashes }) =>
    append.events.map((event, index) => ({ ...event, sessionId: append.sessionId, hash: hashes[index] ?? '' })),
  )
  uuids(to, appends, ({ sessionId }) => sessionId)
  bigints(to, appends, ({ epoch }) => epoch)
  ints(to, appends, ({ after }) => after)
  ints(to, appends, (append) => append.events.length)
  byteas(to, batch, ({ head }) => head)
  ints(to, appends, bytesOf)
  uuids(to, events, ({ sessionId }) => sessionId)
  ints(to, events, ({ seq }) => seq)
  texts(to, events, ({ type }) => type)
  uuids(to, events, ({ turnId }) => turnId)
  texts(to, events, ({ body }) => body)
  byteas(to, events, ({ hash }) => hash)
}

const bytesOf = ({ events }: Append): number =>
  events.reduce((sum, { body }) => sum + Math.min(body.length + EVENT_BYTES, 2 ** 30), 0)

const MORE = [
  'set',
  'data',
  'turns',
  'summary',
  'faults',
  'release',
  'suspect',
  'seen',
  'key',
  'outcomes',
] as const satisfies (keyof Append)[]

/** NULL says that an earlier version left it so: the sweep has such a session looked at. */
const NEVER = 'infinity'

const json = (value: unknown): string => JSON.stringify(value)

/** The values from $13 on. */
function more(appends: readonly Append[]): readonly PgValue[] {
  const outcomes = appends.flatMap(({ sessionId, outcomes: all = [] }) => all.map((each) => ({ sessionId, ...each })))
  const turns = appends.flatMap((append) => append.turns ?? [])
  const rows = appends.filter(({ set, data, summary }) => (set?.at ?? data ?? summary) !== undefined)
  const search = rows.map(({ data }) => (data === undefined ? undefined : searchable(data)))
  const summaries = rows.map(({ summary }) => summary?.turn)
  const keys = appends.flatMap(({ sessionId, key }) => (key === undefined ? [] : [{ sessionId, ...key }]))
  return [
    appends.map(({ set }) => set?.state ?? null),
    appends.map(({ set }) => set?.turnId ?? null),
    appends.map(({ release }) => release !== undefined),
    appends.map(({ release }) => (release === undefined ? null : (release.wakeAt ?? NEVER))),
    appends.map(({ release }) => release?.waitFor ?? null),
    appends.map(({ suspect }) => suspect ?? null),
    appends.map(({ seen }) => seen ?? null),
    outcomes.map(({ sessionId }) => sessionId),
    outcomes.map(({ commandId }) => commandId),
    outcomes.map(({ outcome }) => outcome),
    outcomes.map(({ isRefused = false }) => isRefused),
    turns.map(({ turnId }) => turnId),
    turns.map(({ sessionId }) => sessionId),
    turns.map(({ view }) => json(view)),
    turns.map(({ cancel }) => (cancel === null ? null : json(cancel))),
    rows.map(({ sessionId }) => sessionId),
    rows.map(({ set, summary }) => summary?.updatedAt ?? set?.at ?? null),
    rows.map(({ data }) => (data === undefined ? null : json(data))),
    search.map((found) => found?.boxId ?? null),
    search.map((found) => found?.title ?? null),
    search.map((found) => found?.workspace ?? null),
    rows.map(({ summary }) => summary !== undefined),
    summaries.map((turn) => turn?.state ?? null),
    summaries.map((turn) => turn?.fault?.category ?? null),
    summaries.map((turn) => turn?.fault?.class ?? null),
    summaries.map((turn) => turn?.unknownOutcomes ?? 0),
    summaries.map((turn) => clean(turn?.prompt ?? null)),
    summaries.map((turn) => (turn == null ? null : json(turn))),
    keys.map(({ sessionId }) => sessionId),
    keys.map(({ scope }) => scope),
    keys.map(({ key }) => key),
    keys.map(({ requestHash }) => requestHash),
    keys.map(({ receipt }) => receipt),
  ]
}
