/** A session as one bundle of NDJSON: what it is, then its events as they are in the journal. It opens without a daemon. */
import type { System, Turn } from '@breakfall/wire'
import { EVENT_TYPES } from '@breakfall/wire/browser'
import type { RequestContext } from '@breakfall/wire/node'
import { redactTexts, redactUnknown, type Sessions, type StoredEvent } from '@breakfall/engine'

const PAGE_EVENTS = 500
const PAGE_CHARS_MAX = 4 * 1024 * 1024

export async function sendBundle(
  { res, params, query, method, signal }: RequestContext,
  sessions: Sessions,
  system: () => Promise<System>,
): Promise<void> {
  const { id = '' } = params
  const isRedacted = query.get('redact') === 'text'
  const session = await sessions.get(id)
  const head = { event: 'bundle', version: 1, redacted: isRedacted, session, turns: await turnsOf(sessions, id) }
  const bundle = { ...head, system: await system() }
  let events = await sessions.journalOf(id, 0, PAGE_EVENTS, PAGE_CHARS_MAX) // if it is damaged, the answer can still say so
  res.writeHead(200, {
    'content-type': 'application/x-ndjson',
    'content-disposition': `attachment; filename="breakfall-${session.id}${isRedacted ? '-redacted' : ''}.ndjson"`,
    'cache-control': 'no-store',
  })
  if (method === 'HEAD') return void res.end()
  const write = async (lines: string): Promise<void> => {
    if (!res.write(lines) && !signal.aborted)
      await new Promise<void>((resolve) => {
        res.once('drain', resolve)
        res.once('close', resolve)
      })
  }
  await write(`${JSON.stringify(isRedacted ? redactTexts(bundle) : bundle)}\n`)
  for (let last = events.at(-1); last !== undefined && !signal.aborted; last = events.at(-1)) {
    await write(events.map((event) => `${isRedacted ? redacted(event) : event.body}\n`).join(''))
    events = await sessions.journalOf(id, last.seq, PAGE_EVENTS, PAGE_CHARS_MAX)
  }
  res.end()
}

// ---- details ----

async function turnsOf(sessions: Sessions, id: string): Promise<readonly Turn[]> {
  const turns: Turn[] = []
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const page = await sessions.turns(id, cursor)
    turns.push(...page.turns)
    cursor = page.next
  }
  return turns.toReversed()
}

const KNOWN: ReadonlySet<string> = new Set(EVENT_TYPES)

function redacted({ type, body }: StoredEvent): string {
  const event: unknown = JSON.parse(body)
  return JSON.stringify(KNOWN.has(type) ? redactTexts(event) : redactUnknown(event))
}
