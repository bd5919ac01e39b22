/**
 * Runs a `bash` call as an exec at the runner, under an id that is in the journal before it starts.
 *
 * I1  The exec starts at most once: starting a known id attaches to it, so after a lost answer, a dropped connection or a killed
 *     daemon, the same exec is found again.
 * I2  A command that started and whose runner or box is gone is `unknown` and never runs again, unless its owner declared that
 *     running it twice does no harm, and nothing of its output is in the journal.
 * I3  Output continues where the journal ends, by the exec's own seq and offsets: no character twice, none lost.
 */
import { Fault, isFault } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Exec, ExecExit, ExecRequest } from '@breakfall/wire'
import type { ToolCall } from '../turn/state.ts'
import { ensureBox, isBoxGone, replaceBox } from '../boxes/box.ts'
import { Coalescer, type TextDraft } from '../session/coalesce.ts'
import { ExecOutput } from './exec-output.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { forModel, OutputTail, type OutputChunk } from './output.ts'
import { type GiveUp, isGiveUp } from '../turn/step-result.ts'
import type { Runners } from '../runner/runners.ts'
import { endOf, startedOutcome } from './processes.ts'
import { callRunner } from '../boxes/runner-call.ts'
import { BASH_LIMITS, type ToolArguments } from './arguments.ts'
import { checkpointTurn } from '../boxes/turn-checkpoint.ts'
import { BOX_LOST, failedOutcome, type ToolOutcome, unknownOutcome } from '../turn/tool-outcome.ts'

export async function runBash(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  input: ToolArguments['bash'],
  mayRepeat = false,
): Promise<ToolOutcome | GiveUp> {
  const isRepeatable = (): boolean => mayRepeat && outputOf(session, call) === '' // I2
  const timeoutMs = Math.min(input.timeoutMs ?? BASH_LIMITS.timeoutMs, BASH_LIMITS.timeoutMsMax)
  const limits = backgroundOf(input) ?? { timeoutMs }
  const mayHaveStarted = (): boolean => session.calls.mayHaveStarted(call.callId)
  // The journal has it, so a command that is started again has the same environment.
  const traceparent = call.traceparent ?? session.currentTurn.traceparent
  const traced = traceparent === undefined ? {} : { env: { TRACEPARENT: traceparent } }
  let run = 1
  const called = await callRunner<ToolOutcome>(runners, session, async (connected, runnerId) => {
    let client = connected
    for (;;) {
      const execId = execIdOf(call, run)
      const request: ExecRequest = { execId, shell: input.command, ...limits, ...traced }
      let started: Exec
      try {
        const box = await ensureBox(runners, session, client, runnerId)
        if (isGiveUp(box)) return box
        await checkpointTurn(session, client, box)
        session.observer.reached('before:exec')
        started = await startExec(session, client, request, call)
        session.observer.reached('after:exec')
      } catch (thrown) {
        if ('background' in limits && isFault(thrown) && thrown.category === 'isolation_unavailable')
          return failedOutcome(thrown.error) // only this call is refused
        if (!isBoxGone(thrown)) throw thrown
        if (mayHaveStarted() && !isRepeatable()) return unknownOutcome('the box that ran it is gone') // I2
        const replaced = await replaceBox(runners, session, client)
        if (isGiveUp(replaced)) return replaced
        if (!replaced.filesKept) return BOX_LOST
        client = replaced.client
        continue
      }
      if ('background' in limits && started.exit === null) {
        await followExec(session, client, call, execId, { upTo: started.lastSeq })
        return startedOutcome(session, started, shownOf(session))
      }
      const exit = await followExec(session, client, call, execId)
      if (exit === undefined) throw new Error('an exec that is followed to its end has an exit record')
      // It never ran, or may run again, although its id is used up: use the next id, which every later process derives in the
      // same way.
      const isFree = exit.started === false ? mayPass(exit) : exit.cause === 'runner_lost' && isRepeatable()
      if (isFree && run < RUNS_MAX) {
        run += 1
        continue
      }
      return outcomeOf(session, exit, timeoutMs)
    }
  })
  if (!isGiveUp(called) || !mayHaveStarted()) return called
  if (called.fault.category === 'runner_identity_mismatch') return unknownOutcome('another runner answers in its place') // I2
  return { ...called, fault: { ...called.fault, sideEffects: 'unknown' } }
}

/**
 * Ends the exec of a call, under whichever of its ids it runs, and returns its last record; null if none of them ran. Each id is
 * burned: a start that is still on its way to the runner, and arrives after this, is refused.
 */
export async function killBash(
  client: Pick<RunnerClient, 'killExec' | 'waitExec'>,
  boxId: string,
  call: Pick<ToolCall, 'execId'>,
  signal: AbortSignal,
): Promise<Exec | null> {
  for (let run = RUNS_MAX; run >= 1; run--) {
    const execId = execIdOf(call, run)
    const killed = await client.killExec(boxId, execId, { burn: true, signal })
    const exec = killed.exit === null ? await client.waitExec(boxId, execId, { signal }) : killed
    if (exec.exit?.started !== false) return exec
  }
  return null
}

// ---- details, in the order they are used above ----

const RUNS_MAX = 3

/** What the journal has of its output. */
const outputOf = ({ fold }: OwnedSession, { callId }: ToolCall): string =>
  fold.turn?.calls.find((entry) => entry.callId === callId)?.output ?? ''

/** The next run may succeed: a runner with a full disk refuses it before it gets an id. */
const mayPass = ({ cause, reason }: ExecExit): boolean => cause === 'runner_lost' || reason === 'no_space'

const execIdOf = (call: Pick<ToolCall, 'execId'>, run: number): string =>
  run === 1 ? call.execId : `${call.execId}.${run}`

/** A process has no time limit unless one is given, and its two streams are one, in the order in which it wrote. */
function backgroundOf({ background, timeoutMs }: ToolArguments['bash']): Partial<ExecRequest> | undefined {
  if (background === undefined || background === false) return undefined
  return { background, merge: true, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
}

async function startExec(
  session: OwnedSession,
  client: RunnerClient,
  request: ExecRequest,
  { callId }: ToolCall,
): Promise<Exec> {
  session.calls.starting(callId)
  try {
    return await client.startExec(session.boxId, request, { signal: session.signal })
  } catch (thrown) {
    if (isFault(thrown) && thrown.report.sideEffects === 'none') session.calls.refused(callId)
    throw thrown // I1: starting the same id again cannot run it twice
  }
}

/** Journals what the exec has written and the journal does not have yet, until the exec ends or event `upTo` is there. */
export async function followExec(
  session: OwnedSession,
  client: RunnerClient,
  call: ToolCall,
  execId: string,
  { signal = session.signal, upTo }: { readonly signal?: AbortSignal; readonly upTo?: number | undefined } = {},
): Promise<ExecExit | undefined> {
  const { turn } = session.fold
  const known = turn?.calls.find((entry) => entry.callId === call.callId) ?? call
  const turnId = turn?.id ?? ''
  if (upTo !== undefined && upTo <= known.execSeq) return undefined
  const tail = new OutputTail(Buffer.byteLength(known.output))
  const out = new Coalescer((drafts) => session.append(...drafts), session.clock)
  const output = new ExecOutput(session.secrets, known)
  const draft = (stream: OutputChunk['stream']) =>
    ({ type: 'tool-output', turnId, callId: call.callId, stream, ...output.position() }) as const
  const flushRest = async (): Promise<void> => {
    const held = output.rest().map((piece) => ({ ...piece, text: tail.take(piece) }))
    const rest = [...held, ...tail.rest()].filter(({ text }) => text !== '')
    await out.flush(...rest.map(({ stream, text }) => ({ ...draft(stream), text })))
  }
  try {
    // No reconnect here: `callRunner` journals a break and retries.
    const from = { after: known.execSeq, reconnect: false, signal }
    const events = client.execEvents(session.boxId, execId, from) // I3
    for await (const event of events) {
      if (event.type === 'fault') throw attachable(event.fault)
      if (event.type === 'exit') {
        const { seq: _seq, type: _type, ...exit } = event
        await flushRest()
        return exit
      }
      if (event.type === 'gap') {
        const { stream, text } = output.skip(event)
        if (text !== '') await out.push({ ...draft(stream), text }, () => false)
      } else if (event.type === 'stdout' || event.type === 'stderr') {
        const piece = output.take(event)
        const text = tail.take(piece)
        const continues = (held: TextDraft): boolean => 'stream' in held && held.stream === piece.stream
        if (text !== '') await out.push({ ...draft(piece.stream), text }, continues)
      }
      if (upTo !== undefined && event.seq >= upTo) {
        await flushRest()
        return undefined
      }
    }
    throw new Fault('runner_unreachable', {
      phase: 'stream',
      errorRaw: 'the event stream ended without an exit record',
    })
  } finally {
    await out.drop() // who follows the exec next reads on from what this has journalled
  }
}

/** One connection may have lost events. The exec is followed again from where the journal ends, as after a broken connection (I3). */
const attachable = (fault: Fault): Fault =>
  fault.report.reason === 'events_skipped' ? fault.with({ next: 'resolve' }) : fault

function outcomeOf(session: OwnedSession, exit: ExecExit, timeoutMs: number): ToolOutcome {
  if (exit.cause === 'runner_lost') return { ...unknownOutcome('the runner lost track of it'), exit }
  const output = shownOf(session)
  return { ...commandOutcome(output, exit, timeoutMs, networkHint(output, session)), exit }
}

/** What the call under way has printed, as the model reads it. */
function shownOf(session: OwnedSession): string {
  const call = session.fold.turn?.calls.find((entry) => entry.result === null)
  return forModel(call?.output ?? '').trimEnd()
}

/** What the model reads about an ended command. Missing output is always mentioned. Pure. */
export function commandOutcome(output: string, exit: ExecExit, timeoutMs: number, hint = ''): ToolOutcome {
  const isOk = exit.cause === 'exited' && exit.code === 0
  const end = isOk ? '' : endOf(exit, duration(timeoutMs))
  const missing = missingOutput(exit).filter((message) => !end.includes(message))
  const notes = [end, ...missing, ...toldOf(exit)].filter((words) => words !== '').join('; ')
  const lines = [output, notes === '' ? '' : `[${notes}]${hint}`].filter((line) => line !== '')
  return { outcome: isOk ? 'ok' : 'failed', text: lines.join('\n') || '(no output)' }
}

/** The runner's notes about output that it does not have. */
export const missingOutput = ({ diagnostics }: ExecExit): readonly string[] =>
  diagnostics.filter(({ id }) => MISSING.has(id)).map(({ message }) => message)

/** What the model must know about an exec, with what to do. */
const toldOf = ({ diagnostics }: ExecExit): readonly string[] =>
  diagnostics.filter(({ id }) => TOLD.has(id)).map(({ message, advice }) => `${message}; ${advice}`)

const TOLD: ReadonlySet<string> = new Set([
  'background_ended',
  'network_denied',
  'network_lost',
  'guard_lost',
  'set_aside',
])

const MISSING: ReadonlySet<string> = new Set(['output_lost', 'output_not_kept'])

const NAME_LOOKUP =
  /could not resolve host|name or service not known|temporary failure in name resolution|EAI_AGAIN|ENOTFOUND/i

const networkHint = (output: string, session: OwnedSession): string =>
  (session.data.box.network ?? 'none') === 'none' && NAME_LOOKUP.test(output) ? ' (this box has no network)' : ''
