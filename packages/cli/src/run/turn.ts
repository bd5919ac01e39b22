/**
 * `breakfall run`: one turn in the current folder, live, to its end. The main job.
 *
 * I1  It ends: finished, failed, cancelled, or parked for longer than it waits. Never a hang, with or without a terminal.
 * I2  The first Ctrl-C cancels the turn and waits for its end; the second leaves at once. A parked turn is left parked, and one
 *     that somebody else has started is left running.
 * I3  A lost daemon is looked for, and where it was our own, started again; the turn goes on in it.
 */
import { EXIT_CODES, exitCodeOf, Fault, type FaultReport } from '@breakfall/faults'
import type { Session, SessionCreate, SessionEvent } from '@breakfall/wire'
import { awayWords, keptFault } from '../daemon/lost.ts'
import type { DaemonClient } from '../daemon/client.ts'
import type { Interrupt } from '../process/interrupt.ts'
import type { Output } from '../render/output.ts'
import { paint } from '../render/paint.ts'
import { summary } from '../render/summary.ts'
import { TurnView } from '../render/turn-view.ts'
import { type StartedTurn, startTurn } from './start-turn.ts'
import { Watch } from './park-wait.ts'

export type RunInput = {
  readonly client: DaemonClient
  readonly prompt: string | undefined
  readonly create: SessionCreate
  /** Go on in this session instead of a new one. */
  readonly session: Session | undefined
  readonly parkWaitMs: number
  readonly interrupt: Interrupt
  /** The daemon stays when this run has ended, and goes on with what is parked. */
  readonly isLasting: () => boolean
  readonly onSession?: ((session: Session) => void) | undefined
  /** Called with each event, before it is shown. */
  readonly onEvent?: ((event: SessionEvent) => void) | undefined
  /** What else the result line says. */
  readonly about?: Readonly<Record<string, unknown>> | undefined
}

export type RunResult = {
  readonly outcome: 'finished' | 'failed' | 'cancelled' | 'parked'
  readonly turnId: string
  readonly text: string
  readonly fault: FaultReport | null
  readonly faultsSurvived: number
  /** Nobody has cancelled the turn: this run has left it running. */
  readonly left?: true
}

export async function run(input: RunInput, out: Output): Promise<number> {
  input.interrupt.throwIfAsked()
  const session = input.session ?? (await input.client.createSession(input.create))
  input.onSession?.(session)
  out.knows({ sessionId: session.id })
  const started = await startTurn(input.client, session, input.prompt)
  out.knows({ turnId: started.turnId })
  input.client.goesOnWith(started.turnId)
  const view = new TurnView()
  if (input.prompt === undefined) await learn(input, session, started, view)
  if (started.isTheirs) out.say(following(session.id))
  else input.interrupt.reaches((reason) => input.client.cancel(started.turnId, reason)) // I2
  const result = await follow(input, session, started, view, out).catch((thrown: unknown) => {
    throw keptFault(thrown, session.id)
  })
  if (out.json) out.result({ ...result, ...input.about })
  else for (const line of summary(result, view, session, input.isLasting())) paint(out, [line])
  return exitCodeFor(result)
}

// ---- details, in the order they are used above ----

const following = (sessionId: string): string =>
  `this turn is running already, started by somebody else: it is followed here. Ctrl-C stops following and leaves it running; to end it: breakfall cancel ${sessionId}`

/** What a turn that is taken up has lived through before, so that the summary can name it. */
async function learn(
  { client, interrupt: { signal } }: RunInput,
  session: Session,
  { turnId, after }: StartedTurn,
  view: TurnView,
): Promise<void> {
  if (after === 0) return
  for await (const event of client.events(session.id, { after: 0, signal })) {
    if (event.turnId === turnId) view.learn(event)
    if (event.seq >= after) return
  }
}

async function follow(
  input: RunInput,
  session: Session,
  started: StartedTurn,
  view: TurnView,
  out: Output,
): Promise<RunResult> {
  const { turnId, after, isTheirs } = started
  using watch = new Watch({ ...input, out, isTheirs })
  const onAway = (url: string): void => {
    if (input.isLasting()) out.say(awayWords(url)) // its own is started again, with words of its own
  }
  for await (const event of input.client.events(session.id, { after, signal: watch.signal, onAway })) {
    input.onEvent?.(event)
    if (out.json) out.data(event)
    if (event.turnId !== turnId) continue
    const pieces = view.show(event)
    if (!out.json) paint(out, pieces)
    if (event.type === 'parked') watch.park(event)
    else if (event.type !== 'turn-queued') watch.goOn()
    if (event.type === 'turn-end')
      return { outcome: 'finished', turnId, text: event.text, fault: null, faultsSurvived: event.faultsSurvived }
    if (event.type === 'turn-error') {
      const { type: _type, seq: _seq, sessionId: _sessionId, ...report } = event
      return {
        outcome: event.category === 'cancelled' ? 'cancelled' : 'failed',
        turnId,
        text: '',
        fault: report as unknown as FaultReport,
        faultsSurvived: view.survived.length,
      }
    }
  }
  const left = { turnId, text: '', faultsSurvived: view.survived.length }
  if (watch.parked !== undefined) return { outcome: 'parked', ...left, fault: watch.parked.fault as FaultReport } // I1
  const fault = new Fault('cancelled', { error: 'this run has stopped following the turn, which goes on', turnId })
    .report
  return { outcome: 'cancelled', ...left, fault, left: true } // I2
}

function exitCodeFor(result: RunResult): number {
  switch (result.outcome) {
    case 'finished':
      return EXIT_CODES.finished
    case 'cancelled':
      return EXIT_CODES.cancelled
    case 'parked':
      return isForCredentials(result.fault) ? EXIT_CODES.credentials : EXIT_CODES.transient
    case 'failed':
      return result.fault === null ? EXIT_CODES.failed : exitCodeOf(result.fault)
  }
}

const isForCredentials = (fault: FaultReport | null): boolean =>
  fault !== null && exitCodeOf(fault) === EXIT_CODES.credentials
