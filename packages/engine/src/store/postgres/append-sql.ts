/**
 * Appends of many sessions as one statement. Pure. A session whose epoch or seq does not fit is missing from the answer, and nothing of
 * it is written; the others are not affected.
 */
import { EVENT_BYTES } from '../sqlite-open.ts'
import { type Row, textIn } from '../sqlite-statements.ts'
import type { Append } from '../store.ts'
import type { PgValue } from './connection.ts'
import { FATES, FAULTS } from './fault-rows.ts'
import { arraysOf, namesOf, table, unnested } from './unnest.ts'
import { bytea, clean, searchable } from './values.ts'

/** An append with the hash that its session's journal has afterwards, and those of its events. */
export type Hashed = { readonly append: Append; readonly hashes: readonly string[]; readonly head: string }

/** What an append writes, and where. */
const TABLES = {
  a: table(
    {
      session_id: 'uuid',
      epoch: 'bigint',
      after: 'int',
      n: 'int',
      head: 'bytea',
      bytes: 'int',
      state: 'text',
      turn_id: 'uuid',
      release: 'bool',
      wake_at: 'timestamptz',
      wait_for: 'text',
      suspect: 'int',
      seen: 'int',
    },
    ({ append, head }: Hashed) => [
      {
        session_id: append.sessionId,
        epoch: append.epoch,
        after: append.after,
        n: append.events.length,
        head: bytea(head),
        bytes: bytesOf(append),
        state: append.set?.state ?? null,
        turn_id: append.set?.turnId ?? null,
        release: append.release !== undefined,
        wake_at: append.release === undefined ? null : (append.release.wakeAt ?? NEVER),
        wait_for: append.release?.waitFor ?? null,
        suspect: append.suspect ?? null,
        seen: append.seen ?? null,
      },
    ],
  ),
  e: table(
    { session_id: 'uuid', seq: 'int', type: 'text', turn_id: 'uuid', body: 'text', hash: 'bytea' },
    ({ append: { sessionId, events }, hashes }: Hashed) =>
      events.map(({ seq, type, turnId, body }, index) => ({
        session_id: sessionId,
        seq,
        type,
        turn_id: turnId,
        body,
        hash: bytea(hashes[index] ?? ''),
      })),
  ),
  o: table(
    { session_id: 'uuid', id: 'uuid', outcome: 'text', refused: 'bool' },
    ({ append: { sessionId, outcomes = [] } }: Hashed) =>
      outcomes.map(({ commandId, outcome, isRefused = false }) => ({
        session_id: sessionId,
        id: commandId,
        outcome,
        refused: isRefused,
      })),
  ),
  v: table(
    { turn_id: 'uuid', session_id: 'uuid', view: 'text', cancel: 'text' },
    ({ append: { turns = [] } }: Hashed) =>
      turns.map(({ turnId, sessionId, view, cancel }) => ({
        turn_id: turnId,
        session_id: sessionId,
        view: json(view),
        cancel: cancel === null ? null : json(cancel),
      })),
  ),
  d: table(
    {
      id: 'uuid',
      updated_at: 'text',
      data: 'text',
      box_id: 'text',
      title: 'text',
      workspace: 'text',
      summary: 'bool',
      turn_state: 'text',
      category: 'text',
      class: 'text',
      unknown_outcomes: 'int',
      prompt: 'text',
      turn: 'text',
    },
    ({ append: { sessionId, set, data, summary } }: Hashed) => {
      if ((set?.at ?? data ?? summary) === undefined) return []
      const search = data === undefined ? undefined : searchable(data)
      const turn = summary?.turn
      return [
        {
          id: sessionId,
          updated_at: summary?.updatedAt ?? set?.at ?? null,
          data: data === undefined ? null : json(data),
          box_id: search?.boxId ?? null,
          title: search?.title ?? null,
          workspace: search?.workspace ?? null,
          summary: summary !== undefined,
          turn_state: turn?.state ?? null,
          category: turn?.fault?.category ?? null,
          class: turn?.fault?.class ?? null,
          unknown_outcomes: turn?.unknownOutcomes ?? 0,
          prompt: clean(turn?.prompt ?? null),
          turn: turn == null ? null : json(turn),
        },
      ]
    },
  ),
  y: table(
    { session_id: 'uuid', scope: 'text', key: 'text', request_hash: 'text', receipt: 'text' },
    ({ append: { sessionId, key } }: Hashed) =>
      only(key).map(({ scope, key: name, requestHash, receipt }) => ({
        session_id: sessionId,
        scope,
        key: name,
        request_hash: requestHash,
        receipt,
      })),
  ),
  g: FATES,
  f: FAULTS,
} as const

const from = unnested(TABLES)

/**
 * One text for all appends: the server plans it once. A row that another transaction holds must not stop everyone: after two seconds
 * the batch is taken apart. The answer is one row: 64 of them take a tenth of an append's time.
 */
export const APPEND = `
WITH t AS (SELECT set_config('lock_timeout', '2s', true)),
a AS (SELECT a.* FROM t, ${from('a')}),
o AS (SELECT * FROM ${from('o')}),
k AS (SELECT id FROM commands WHERE id = ANY (ARRAY(SELECT id FROM o)) AND outcome IS NULL FOR UPDATE),
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
e AS (
  INSERT INTO events (session_id, seq, epoch, type, turn_id, body, hash)
  SELECT e.session_id, e.seq, h.epoch, e.type, e.turn_id, e.body, e.hash FROM ${from('e')} JOIN h USING (session_id)
),
v AS (
  INSERT INTO turns (turn_id, session_id, view, cancel)
  SELECT v.turn_id, v.session_id, v.view, v.cancel FROM ${from('v')} JOIN h USING (session_id)
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
  FROM ${from('d')} JOIN h ON h.session_id = d.id
  WHERE s.id = d.id
),
y AS (
  INSERT INTO keys (scope, key, request_hash, receipt)
  SELECT y.scope, y.key, y.request_hash, y.receipt FROM ${from('y')} JOIN h USING (session_id)
),
c AS (
  UPDATE commands c SET outcome = o.outcome, key = CASE WHEN o.refused THEN NULL ELSE c.key END
  FROM o JOIN h USING (session_id) WHERE c.id = o.id
),
g AS (
  UPDATE faults f SET became = g.became FROM ${from('g')} JOIN h USING (session_id)
  WHERE f.turn_id = g.turn_id AND f.became IN ('open', 'parked')
),
f AS (
  INSERT INTO faults (${namesOf(FAULTS)}) SELECT ${namesOf(FAULTS)} FROM ${from('f')} JOIN h USING (session_id)
)
SELECT coalesce(string_agg(session_id::text, ','), '') AS written FROM h`

export const valuesOf = (batch: readonly Hashed[]): readonly PgValue[] => arraysOf(TABLES, batch)

/** The sessions whose append was written. */
export const writtenIn = ([row]: readonly Row[]): ReadonlySet<string> =>
  new Set(row === undefined ? [] : textIn(row, 'written').split(','))

/** Its own statement: a taken key or a withdrawn command must not affect others. */
export const isAlone = ({ key, outcomes = [] }: Append): boolean => key !== undefined || outcomes.length > 0

// ---- details ----

const bytesOf = ({ events }: Append): number =>
  events.reduce((sum, { body }) => sum + Math.min(body.length + EVENT_BYTES, 2 ** 30), 0)

/** NULL says that an earlier version left it so: the sweep has such a session looked at. */
const NEVER = 'infinity'

const json = (value: unknown): string => JSON.stringify(value)

const only = <T>(value: T | undefined): readonly T[] => (value === undefined ? [] : [value])
