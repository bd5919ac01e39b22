/** Sessions as lines of text. Pure. */
import { isCutOff, type Session, type Turn, type TurnSummary } from '@breakfall/wire'
import type { Output } from '../terminal/output.ts'
import { age, money, sumOf, tokens, utcTime } from '../text/amounts.ts'
import { shortener, tableOf } from '../text/table.ts'
import { isAbandoned, parkedLines } from './parked.ts'

const HEAD = ['SESSION', 'AGE', 'STATE', 'FOLDER', 'MODEL', 'TITLE'] as const

/** A header, a line per session, and below a parked session what it waits for. */
export function sessionTable(sessions: readonly Session[], style: Output['style'], now: number): readonly string[] {
  const shortId = shortener(sessions.map(({ id }) => id))
  const rows = sessions.map((session) => {
    const { id, model, workspace, updatedAt = session.createdAt } = session
    return [
      shortId(id),
      age(updatedAt, now),
      sessionStatus(session),
      workspace ?? '(private)',
      model === '' || model === 'default' ? '(default)' : model,
      titleOf(session),
    ]
  })
  const [head = '', ...lines] = tableOf([HEAD, ...rows])
  return [
    style('dim', head),
    ...sessions.flatMap((session, index) => {
      const line = lines[index] ?? ''
      const { parked = null } = session.turn ?? {}
      const waits = parked === null ? [] : parkedLines(parked, shortId(session.id), session.live !== false)
      return [colouredRow(session, line, style), ...waits.map((wait) => `  ${wait}`)]
    }),
  ]
}

/** How its current turn is, or how its last one ended. `new`: it has had none. */
export function sessionStatus(session: Session): string {
  const { turn, state, quarantined } = session
  if (quarantined != null) return 'damaged'
  if (isAbandoned(session)) return `${turn?.state ?? state}, no daemon`
  if (turn === null || turn === undefined) return state === 'idle' ? 'new' : state
  if (isCutOff(turn)) return 'cut off'
  return turn.state === 'failed' && turn.fault !== null ? `failed: ${turn.fault.category}` : turn.state
}

/** What is known about the session as a whole. `turns` are all of its turns, or the newest of them. */
export function sessionLines(session: Session, turns: readonly Turn[], now: number): readonly string[] {
  const { id, workspace, model, createdAt, updatedAt = createdAt, tools, policy, quarantined } = session
  const total = totals(turns)
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['session', id],
    ['title', titleOf(session)],
    ['state', `${sessionStatus(session)}, changed ${age(updatedAt, now)} ago`],
    ['folder', workspace ?? '(private)'],
    ['model', model],
    ['provider', providerText(session)],
    ['created', `${utcTime(createdAt)}, ${age(createdAt, now)} ago`],
    ['turns', String(turns.length)],
    ['used', total === '' ? undefined : total],
    ['tools', tools?.join(', ')],
    ['policy', policy === undefined || Object.keys(policy).length === 0 ? undefined : JSON.stringify(policy)],
    ['damaged', quarantined?.error],
  ]
  return facts.flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [`${name.padEnd(8)} ${value.replaceAll(/\s+/g, ' ')}`],
  )
}

// ---- details, in the order they are used above ----

/** `cloud at https://api.example.com/v1 (openai-chat)`. */
function providerText({ provider }: Session): string | undefined {
  if (provider == null) return undefined
  const { name, baseUrl, api } = provider
  return `${name}${baseUrl === '' ? ', started by the daemon' : ` at ${baseUrl}`} (${api})`
}

const titleOf = ({ title, turn }: Session): string => title ?? turn?.prompt.trim().split('\n')[0] ?? ''

const GOOD: ReadonlySet<TurnSummary['state']> = new Set(['queued', 'running', 'retrying'])

function colouredRow({ turn, quarantined }: Session, line: string, style: Output['style']): string {
  if (quarantined != null || turn?.state === 'failed') return style('red', line)
  if (turn?.state === 'parked') return style('yellow', line)
  return turn != null && GOOD.has(turn.state) ? style('green', line) : line
}

/** The tokens and the cost of all turns together. */
function totals(turns: readonly Turn[]): string {
  const usages = turns.map(({ usage }) => usage)
  const inputTokens = sumOf(usages.map((usage) => usage.inputTokens))
  const outputTokens = sumOf(usages.map((usage) => usage.outputTokens))
  if (inputTokens === undefined || outputTokens === undefined) return ''
  const cost = money(sumOf(turns.flatMap((turn) => (turn.cost === undefined ? [] : [turn.cost]))))
  return [tokens({ inputTokens, outputTokens }), ...(cost === undefined ? [] : [cost])].join(', ')
}
