/** What a parked or abandoned turn is waiting for, and how to continue it, as text. Pure. */
import { EXIT_CODE_BY_CATEGORY, EXIT_CODES, type FaultCategory, FAULTS, isFaultCategory } from '@breakfall/faults'
import { continuesByItself, type Park, questionOf } from '@breakfall/wire/turn'
import { cmd } from '../process/command-name.ts'
import { utcTime } from '../text/amounts.ts'

type Parked = { readonly category: string; readonly since: string; readonly resumeAt: string | null }

/** `for the network (network_down)`, with a time if there is one. */
export function waitsFor({ category, resumeAt }: Pick<Parked, 'category' | 'resumeAt'>): string {
  const until = resumeAt === null ? '' : `, until ${utcTime(resumeAt)}`
  return `for ${isFaultCategory(category) ? thing(category) : 'what failed'} (${category})${until}`
}

/** One line says what it waits for, the next how it continues. */
export function parkedLines(parked: Parked, sessionId: string, isLive: boolean): readonly string[] {
  return [
    `waiting ${waitsFor(parked)} since ${utcTime(parked.since)}`,
    howItContinues(sessionId, isLive, parked.category),
  ]
}

/** A running daemon continues it automatically; otherwise the user has to. `serverFlags`: those that a new key needs to be used. */
export function howItContinues(sessionId: string, isLive: boolean, category: string, serverFlags = ''): string {
  if (category === 'model_auth_failed' && serverFlags !== '')
    return `to continue it with the key of your terminal: ${cmd('run')} --session ${sessionId} ${serverFlags}`
  const question = isFaultCategory(category) ? questionOf(parkWith(category)) : undefined
  if (question === 'steps') return howToGrant(sessionId)
  if (question === 'approval') return howToApprove(sessionId)
  if (!isLive) return howToContinue(sessionId, category)
  if (category === 'model_auth_failed') return howToBringKey(sessionId)
  return `continues automatically; to retry now: ${cmd('resume')} ${sessionId}`
}

/** Without a daemon. Without a category, the turn was interrupted. */
export function howToContinue(sessionId: string, category?: string): string {
  const here = `to continue it: ${cmd('run')} --continue (in its folder) or ${cmd('run')} --session ${sessionId}`
  return category !== undefined && isFaultCategory(category) && !continuesByItself(parkWith(category))
    ? `${here}; under ${cmd('up')}: ${cmd('resume')} ${sessionId}`
    : `${here}; ${cmd('up')} continues it automatically`
}

/** The journal says that it is in progress, but no daemon works on it. */
export const isAbandoned = (record: { readonly state: string; readonly live?: unknown }): boolean =>
  record.live === false && IN_PROGRESS.has(record.state)

/** Somebody has to act, or it is enough to wait. */
export const exitCodeWhenParked = (category: string): number =>
  isFaultCategory(category) && EXIT_CODE_BY_CATEGORY[category] === EXIT_CODES.credentials
    ? EXIT_CODES.credentials
    : EXIT_CODES.transient

// ---- details, in the order they are used above ----

/** Only a person knows whether it should continue. */
const howToGrant = (sessionId: string): string =>
  `to give it as many steps again: ${cmd('run')} --session ${sessionId} (or ${cmd('resume')} ${sessionId}, if a daemon runs); another prompt to that session continues it as well`

/** Without a daemon, the command continues the turn itself. */
const howToApprove = (sessionId: string): string =>
  `to allow it: ${cmd('approve')} ${sessionId}; to deny it: ${cmd('approve')} ${sessionId} --deny --reason TEXT`

/** A key from this terminal comes first, whatever the turn's key was and wherever it came from. */
const howToBringKey = (sessionId: string): string =>
  `to continue it with the key of your terminal: ${cmd('resume')} ${sessionId}; a changed key in the daemon's configuration (${cmd('login')}) continues it automatically`

/** As far as the category tells. */
const parkWith = (category: FaultCategory): Park => ({ fault: { category, class: FAULTS[category].class } })

const NAMED: Readonly<Partial<Record<FaultCategory, string>>> = {
  quota_exceeded: 'you to say whether it continues',
  steps_spent: 'you to say whether it continues',
  approval_needed: 'your approval of a tool call',
  mcp_auth_failed: 'a valid token for an MCP server',
  network_down: 'the network',
  model_auth_failed: 'a valid key for the model provider',
  model_quota_exhausted: 'credit, or a quota reset',
  model_rate_limited: "the model provider's rate limit",
  runner_auth_failed: "the runner's token",
  runner_not_available: 'a runner that fits',
  journal_full: 'at least 8 MiB of disk space',
  shutting_down: 'the next daemon',
  lease_lost: 'the next daemon',
}

function thing(category: FaultCategory): string {
  const named = NAMED[category]
  if (named !== undefined) return named
  const { boundary } = FAULTS[category]
  if (boundary === 'runner' || boundary === 'box') return 'the runner'
  return boundary === 'model' || boundary === 'process' ? 'the model server' : 'the next daemon'
}

const IN_PROGRESS: ReadonlySet<string> = new Set(['busy', 'queued', 'running', 'retrying'])
