/** Why an append is missing from the answer to its batch: another owner, no such session, a withdrawn command, or written before. */
import { Fault } from '@breakfall/faults'
import { numberIn, type Row, textIn, textOrNullIn } from '../sqlite-statements.ts'
import type { JournalEnd } from './acknowledged.ts'
import type { Hashed } from './append-sql.ts'
import type { Connection } from './connection.ts'

/** The journal ends before the last event its writer has seen: a failover may have lost the rest. */
export type Rewound = { readonly rewoundTo: JournalEnd }

export type Verdict = 'written' | Fault | Rewound

export async function missedAppends(
  connection: Connection,
  missed: readonly Hashed[],
): Promise<ReadonlyMap<string, Verdict>> {
  const rows = await connection.query(LOOK, [
    missed.map(({ append }) => append.sessionId),
    missed.map(({ append }) => append.after + append.events.length),
    missed.map(({ append }) => append.outcomes?.[0]?.commandId ?? null),
  ])
  const found = new Map(rows.map((row) => [textIn(row, 'session_id'), row]))
  return new Map(missed.map((each) => [each.append.sessionId, verdict(each, found.get(each.append.sessionId))]))
}

// ---- details ----

/** The current head, the hash of the event that the append would have ended with, and the command that it carries out. */
const LOOK = `
SELECT h.session_id, h.epoch, h.last_seq, encode(h.head, 'hex') AS head, encode(e.hash, 'hex') AS hash, c.id::text AS command, c.outcome
FROM unnest($1::uuid[], $2::int[], $3::uuid[]) AS a(session_id, seq, command)
JOIN heads h USING (session_id)
LEFT JOIN events e ON e.session_id = a.session_id AND e.seq = a.seq
LEFT JOIN commands c ON c.id = a.command`

function verdict({ append, head }: Hashed, row: Row | undefined): Verdict {
  if (row === undefined) return new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
  const [epoch, lastSeq] = [numberIn(row, 'epoch'), numberIn(row, 'last_seq')]
  if (lastSeq < append.after) return { rewoundTo: { lastSeq, epoch, hash: textIn(row, 'head') } }
  if (append.events.length > 0 && textOrNullIn(row, 'hash') === head) return 'written' // also if another daemon has taken over since
  if (epoch !== append.epoch) return lost(`epoch ${append.epoch}, now ${epoch}`)
  const [carriedOut] = append.outcomes ?? []
  if (carriedOut !== undefined) {
    const outcome = textOrNullIn(row, 'outcome')
    if (append.events.length === 0 && outcome === carriedOut.outcome) return 'written'
    if (row['command'] === null || outcome !== null) return withdrawn(carriedOut.commandId)
  }
  return lost(`append after seq ${append.after}, but the journal is at ${lastSeq}`)
}

export const lost = (errorRaw: string): Fault => new Fault('lease_lost', { boundary: 'journal', errorRaw })

const withdrawn = (commandId: string): Fault =>
  new Fault('cancelled', { boundary: 'journal', errorRaw: `command ${commandId} was withdrawn` })
