/**
 * Starts one turn and follows it live to its end.
 *
 * I1  It ends: finished, failed, cancelled, or parked for longer than the run waits. It never hangs, with or without a terminal.
 * I2  The first Ctrl-C cancels the turn and waits for its end; the second exits at once. A parked turn stays parked, and a turn
 *     that another run started keeps running, as does any turn whose terminal is closed.
 * I3  If the daemon is lost the run finds it again, or restarts its own; the turn continues there.
 * I4  A reader that attaches sees what happened before in short, the current step whole, and what is still asked like any other run.
 */
import type { DaemonClient } from '@breakfall/client'
import { exitCodeOf, Fault, faultFrom, isFault, POLICY_DEFAULTS } from '@breakfall/faults'
import { within } from '@breakfall/faults/internal'
import type {
  InstructionsFile,
  ProviderGiven,
  SameFolder,
  Session,
  SessionCreate,
  SessionEvent,
  SessionEventOf,
  SessionProcess,
  Turn,
} from '@breakfall/wire'
import { waitingForDaemon, withHowToContinue } from '../../daemon/find.ts'
import { cmd } from '../../process/command-name.ts'
import { paint } from '../../render/paint.ts'
import { turnFacts } from '../../render/turn-lines.ts'
import { type Segment, TurnView } from '../../render/turn-view.ts'
import type { Interrupt } from '../../terminal/interrupt.ts'
import type { Output } from '../../terminal/output.ts'
import { Approvals } from './approvals.ts'
import { asMountRefusal } from './mounts.ts'
import { ParkWait } from './park-wait.ts'
import { exitCodeFor, type RunResult } from './result.ts'
import { type GivenAnswer, type StartedTurn, startTurn } from './start-turn.ts'
import { StatusLine } from './status-line.ts'
import { summary } from './summary.ts'

export type FollowInput = {
  readonly client: Pick<
    DaemonClient,
    | 'approve'
    | 'createSession'
    | 'session'
    | 'turn'
    | 'prompt'
    | 'resume'
    | 'cancel'
    | 'events'
    | 'releaseBox'
    | 'processes'
  >
  readonly prompt: string | undefined
  readonly create: SessionCreate
  /** Continue in this session instead of a new one. */
  readonly session: Session | undefined
  readonly parkWaitMs?: number | undefined
  /** Answers the call that the turn waits for. */
  readonly answer?: GivenAnswer | undefined
  /** Follow this turn, which something else started. */
  readonly attach?: string | undefined
  /** Only start the turn. */
  readonly isDetached?: boolean | undefined
  /** Called if the turn continues without this run. */
  readonly onLeave?: (() => void) | undefined
  /** If another session works in the folder. Default: share it. */
  readonly sameFolder?: SameFolder | undefined
  readonly interrupt: Pick<Interrupt, 'signal' | 'hungUp' | 'throwIfInterrupted' | 'onCancel' | 'leaveInstead'>
  /** If the daemon is away, cancels the turn without it. The run then ends with the fault. Undefined if the daemon is there. */
  readonly cancelIfAway?: ((turnId: string, reason: string) => Promise<Fault | undefined>) | undefined
  /** The daemon outlives this run and continues parked turns. */
  readonly isLasting: () => boolean
  readonly onSession?: ((session: Session) => void) | undefined
  readonly onTurn?: ((turnId: string) => void) | undefined
  /** The turn's own provider with this run's key for it. Undefined if this run has none. */
  readonly keyFor?: ((turn: Turn) => ProviderGiven | undefined) | undefined
  /** Flags that name the model server, without which a key from this terminal is not for the turn. Default: none. */
  readonly serverFlags?: string | undefined
  /** Called with each event, before it is shown. */
  readonly onEvent?: ((event: SessionEvent) => void) | undefined
  /** Names the project's files that go to the model. Default: true. */
  readonly saysInstructions?: boolean | undefined
  /** More fields of the result line. */
  readonly resultFields?: Readonly<Record<string, unknown>> | undefined
}

/** Returns the exit code. */
export async function followTurn(input: FollowInput, out: Output): Promise<number> {
  input.interrupt.throwIfInterrupted()
  const session = input.session ?? (await input.client.createSession(input.create).catch(refuse))
  input.onSession?.(session)
  out.addToResult({ sessionId: session.id })
  const started = await startTurn(input, session)
  out.addToResult({ turnId: started.turnId })
  input.onTurn?.(started.turnId)
  const view = new TurnView({ holdsText: !out.isTerminal, allowed: allowedNames(input) })
  if (input.isDetached === true) return leave(input, session, started.turnId, view, out)
  const isAttached = input.attach !== undefined
  if (started.isTheirs) out.say(isAttached ? attachedNotice(started.turnId) : followingNotice(session.id))
  const asked = isAttached ? await catchUp(input, session, started, view, out) : []
  if (!isAttached && input.prompt === undefined) await replay(input, session, started, view)
  const ending = new AbortController()
  if (!started.isTheirs) input.interrupt.onCancel((reason) => cancel(input, started.turnId, reason, ending)) // I2
  const ended = await follow(input, session, { ...started, asked, signal: ending.signal }, view, out).catch(
    (thrown: unknown) => {
      if (!ending.signal.aborted) throw withHowToContinue(thrown, session.id)
    },
  )
  if (ended === undefined) return endWithoutDaemon(faultFrom(ending.signal.reason), started.turnId, view, out)
  const result = { ...ended, ...(await usedBy(input, ended, view)), ...filesOf(view) }
  if (result.left === true || input.interrupt.hungUp.aborted) input.onLeave?.()
  else if (input.isLasting() && result.outcome !== 'parked') await releaseBox(input.client, session.id)
  const processes = result.outcome === 'parked' || result.left === true ? [] : await stillRunning(input, session.id)
  if (out.json) out.result({ ...result, ...(processes.length > 0 && { processes }), ...input.resultFields })
  else {
    const { serverFlags } = input
    const lines = summary(result, view, session, { isLasting: input.isLasting(), processes, serverFlags })
    for (const line of lines) paint(out, [line])
  }
  return exitCodeFor(result)
}

/** Undefined if there are none. */
export function instructionsLine(files: readonly InstructionsFile[] = []): string | undefined {
  return files.length === 0 ? undefined : `instructions: ${files.map(described).join(', ')}`
}

// ---- details, in the order they are used above ----

function refuse(thrown: unknown): never {
  throw asMountRefusal(thrown)
}

/** Nobody waits for a daemon after Ctrl-C. */
async function cancel(input: FollowInput, turnId: string, reason: string, ending: AbortController): Promise<void> {
  const fault = await input.cancelIfAway?.(turnId, reason)
  if (fault === undefined) await input.client.cancel(turnId, reason)
  else ending.abort(fault)
}

/** Nothing more is asked: nobody would answer. */
function endWithoutDaemon(fault: Fault, turnId: string, view: TurnView, out: Output): number {
  const outcome = fault.category === 'cancelled' ? 'cancelled' : 'failed'
  if (out.json) out.result({ outcome, turnId, text: '', fault: fault.report, faultsSurvived: view.survived.length })
  out.say(`breakfall: ${fault.error}`)
  return exitCodeOf(fault.report)
}

/** What the box of a new session may reach. A continued one keeps its own, which is not known here. */
function allowedNames({ session, create }: FollowInput): readonly string[] | undefined {
  const network = create.box?.network
  return session === undefined && typeof network === 'object' ? network.allow : undefined
}

const LAST_CALL_MS = 2_000

/** A daemon that outlives the run keeps the box no longer than the run. If this fails, the box is released when it has been idle. */
const releaseBox = (client: FollowInput['client'], sessionId: string): Promise<unknown> =>
  briefly(client.releaseBox(sessionId))

/** The background processes that the run leaves behind, as far as their runner answers. */
async function stillRunning({ client }: FollowInput, sessionId: string): Promise<readonly SessionProcess[]> {
  return (await briefly(client.processes(sessionId)))?.processes ?? []
}

/** The result of the run is known: what is only asked for at its end delays it little, and never fails it. */
const briefly = <T>(asked: Promise<T>): Promise<T | undefined> =>
  within(
    asked.catch(() => undefined), // it is only asked for at the end
    LAST_CALL_MS,
  )

const followingNotice = (sessionId: string): string =>
  `another run started this turn and it is still running, so this run only follows it. Ctrl-C stops following and leaves it running; to cancel it: ${cmd('cancel')} ${sessionId}`

const attachedNotice = (turnId: string): string =>
  `attached to turn ${turnId}. Ctrl-C stops following and leaves it running; to cancel it: ${cmd('cancel')} ${turnId}`

/** `--detach`: the daemon has the turn. */
function leave(input: FollowInput, session: Session, turnId: string, view: TurnView, out: Output): number {
  input.onLeave?.()
  const result = { outcome: 'detached', turnId, text: '', fault: null, faultsSurvived: 0 } as const
  if (out.json) out.result({ ...result, ...input.resultFields })
  else paint(out, summary(result, view, session, { isLasting: input.isLasting() }))
  return exitCodeFor(result)
}

/** I4. Returns the events that still ask for something, or end the turn: they come as if they were new. */
async function catchUp(
  { client, interrupt: { hungUp } }: FollowInput,
  session: Session,
  { turnId, after }: StartedTurn,
  view: TurnView,
  out: Output,
): Promise<readonly SessionEvent[]> {
  const turn = await client.turn(turnId)
  const { firstSeq = 1 } = turn
  const asking: SessionEvent[] = []
  let step: Segment[] = []
  const events = firstSeq > after ? [] : client.events(session.id, { after: firstSeq - 1, signal: hungUp })
  for await (const event of events) {
    if (event.turnId === turnId) {
      if (event.type === 'step-start') step = []
      asking.push(event)
      if (!STILL_ASKS.has(event.type))
        for (const past of asking.splice(0)) {
          if (out.json) out.data(past)
          step.push(...view.show(past))
        }
    }
    if (event.seq >= after) break
  }
  if (out.json) return asking
  for (const fact of turnFacts(
    turn,
    view.survived.map(({ category }) => category),
  ))
    out.line(out.style('dim', fact))
  paint(out, step)
  return asking
}

const STILL_ASKS: ReadonlySet<SessionEvent['type']> = new Set([
  'approval-requested',
  'parked',
  'turn-end',
  'turn-error',
])

/** Reads what a continued turn has been through, for the summary to name. */
async function replay(
  { client, interrupt: { signal } }: FollowInput,
  session: Session,
  { turnId, after }: StartedTurn,
  view: TurnView,
): Promise<void> {
  if (after === 0) return
  for await (const event of client.events(session.id, { after: 0, signal })) {
    if (event.turnId === turnId) view.replay(event)
    if (event.seq >= after) return
  }
}

async function follow(
  input: FollowInput,
  session: Session,
  started: StartedTurn & { readonly asked: readonly SessionEvent[]; readonly signal: AbortSignal },
  view: TurnView,
  out: Output,
): Promise<RunResult> {
  const { turnId, after, isTheirs } = started
  using wait = new ParkWait({ ...input, out, isTheirs, isAttached: input.attach !== undefined })
  using status = new StatusLine(out, patienceOf(session, input))
  using approvals = new Approvals({ client: input.client, out, leave: () => wait.leave() })
  const onUnreachable = (url: string): void => {
    if (input.isLasting()) out.say(waitingForDaemon(url)) // the restart of the run's own daemon has its own message
  }
  const { hungUp } = input.interrupt
  const signal = AbortSignal.any([wait.signal, started.signal, hungUp])
  const events = input.client.events(session.id, { after, signal, onUnreachable })
  for await (const event of afterThose(started.asked, events)) {
    input.onEvent?.(event)
    if (out.json) out.data(event)
    if (event.turnId !== turnId) continue
    if (event.type === 'turn-start' && !out.json && input.saysInstructions !== false) sayInstructions(event, out)
    if (event.type === 'turn-start' && !out.json) sayMissingTools(event, out)
    const segments = view.show(event)
    if (!out.json) showEvent(event, segments, status, out)
    if (event.type === 'parked' && (await isBroughtBack(input, event))) continue
    const isAnswered = await approvals.takes(event)
    if (event.type === 'parked') wait.park(event, isAnswered)
    else if (event.type !== 'turn-queued') wait.resume()
    if (event.type === 'turn-end') return finished(event)
    if (event.type === 'turn-error') return failed(event, view)
  }
  started.signal.throwIfAborted()
  const left = { turnId, text: '', faultsSurvived: view.survived.length }
  if (wait.parked !== undefined) return { outcome: 'parked', ...left, fault: faultFrom(wait.parked.fault).report } // I1
  const how = hungUp.aborted ? 'The terminal was closed, and this run' : 'This run'
  const error = `${how} stopped following the turn, which is still running`
  return { outcome: 'cancelled', ...left, fault: new Fault('cancelled', { error, turnId }).report, left: true } // I2
}

async function* afterThose(first: readonly SessionEvent[], rest: AsyncIterable<SessionEvent>) {
  yield* first
  yield* rest
}

/** Undefined if a separate daemon sets the default. */
const patienceOf = ({ policy }: Session, { isLasting }: FollowInput): number | undefined =>
  policy?.patienceMs ?? (isLasting() ? undefined : POLICY_DEFAULTS.patienceMs)

function sayInstructions({ instructions }: SessionEventOf<'turn-start'>, out: Output): void {
  const line = instructionsLine(instructions)
  if (line !== undefined) out.say(line)
}

function sayMissingTools({ missingTools = [] }: SessionEventOf<'turn-start'>, out: Output): void {
  for (const { server, because } of missingTools)
    out.say(`mcp: ${server} is not ready; its tools are missing: ${because}`)
}

/** The daemon restarted and forgot the key: this run brings it again, and the turn continues. */
async function isBroughtBack({ client, keyFor }: FollowInput, event: SessionEventOf<'parked'>): Promise<boolean> {
  if (event.fault.reason !== KEY_MISSING) return false
  const turn = await client.turn(event.turnId)
  if (turn.parked === null) return true // it was resumed, or it ended, meanwhile: its next events follow
  const provider = keyFor?.(turn)
  if (provider === undefined) return false
  return client.resume(turn.id, { provider }).then(
    () => true,
    (thrown: unknown) => isFault(thrown) && thrown.category === 'turn_not_parked', // somebody else was faster
  )
}

const KEY_MISSING = 'key_missing'

function showEvent(event: SessionEvent, segments: readonly Segment[], status: StatusLine, out: Output): void {
  if (event.type === 'model-server') return status.show(event)
  if (event.type === 'retry' && event.free === true) {
    if (segments[0]?.text.startsWith('\n') === true) out.line() // ends the line of the answer before
    return status.showFreeRetry(event)
  }
  status[Symbol.dispose]()
  paint(out, segments)
}

function finished(event: SessionEventOf<'turn-end'>): RunResult {
  const { turnId, text, faultsSurvived, usage, cost, finish, unproven } = event
  return {
    outcome: 'finished',
    turnId,
    text,
    fault: null,
    faultsSurvived,
    usage,
    ...(cost === undefined ? {} : { cost }),
    ...(finish === undefined ? {} : { finish }),
    ...(unproven === undefined ? {} : { unproven }),
  }
}

/** What the turn used. Only the end of a finished turn tells; otherwise the daemon is asked, if it is still there. */
async function usedBy({ client }: FollowInput, result: RunResult, view: TurnView): Promise<Partial<RunResult>> {
  const { startedAt, endedAt } = view
  const time =
    startedAt === undefined || endedAt === undefined ? {} : { durationMs: Date.parse(endedAt) - Date.parse(startedAt) }
  if (result.usage !== undefined || result.left === true) return time
  const turn = await briefly(client.turn(result.turnId)) // the result is known; these are only more fields
  if (turn === undefined) return time
  return { ...time, usage: turn.usage, ...(turn.cost === undefined ? {} : { cost: turn.cost }) }
}

function filesOf({ endedAt, record: { filesChanged, filesUnknown } }: TurnView): Partial<RunResult> {
  return endedAt === undefined ? {} : { filesChanged, ...(filesUnknown ? { filesUnknown } : {}) }
}

function failed(event: SessionEventOf<'turn-error'>, view: TurnView): RunResult {
  const { actor } = event
  return {
    outcome: event.category === 'cancelled' ? 'cancelled' : 'failed',
    turnId: event.turnId,
    text: '',
    fault: { ...faultFrom(event).report, ...(actor === undefined ? {} : { actor }) },
    faultsSurvived: view.survived.length,
  }
}

function described({ path, bytes, sentBytes, refused }: InstructionsFile): string {
  if (refused?.startsWith(AT_RUNNER) === true) return `the model reads ${path} at the runner, if there is one`
  if (refused !== undefined) return `${path} (not sent: it ${refused})`
  if (sentBytes < bytes) return `${path} (cut: ${size(sentBytes)} of ${size(bytes)})`
  return `${path} (${size(bytes)})`
}

/** Nothing went wrong: a runner's files cannot be read before the first tool call. */
const AT_RUNNER = 'is on the machine of the runner'

const size = (bytes: number): string => (bytes < 1024 ? `${bytes} bytes` : `${(bytes / 1024).toFixed(1)} KiB`)
