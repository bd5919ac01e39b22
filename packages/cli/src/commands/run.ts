/**
 * `breakfall run`: one turn in the current folder, live, to its end. The main job.
 *
 * I1  It ends: finished, failed, cancelled, or parked for longer than it waits. Never a hang, with or without a terminal.
 * I2  The first Ctrl-C cancels the turn and waits for its end; the second leaves at once.
 * I3  A lost daemon is looked for, and where it was our own, started again; the turn goes on in it.
 */
import { randomUUIDv7 } from 'node:crypto'
import { EXIT_CODES, exitCodeOf, Fault, type FaultReport, isFault } from '@breakfall/faults'
import { type Session, type SessionCreate, type SessionEvent, type SessionEventOf } from '@breakfall/wire'
import type { DaemonClient } from '../daemon-client.ts'
import type { Interrupt } from '../interrupt.ts'
import type { Output } from '../output.ts'
import { paint } from '../render/paint.ts'
import { summary } from '../render/summary.ts'
import { TurnView } from '../render/turn-view.ts'
import { lastTurnId } from './sessions.ts'

export type RunInput = {
  readonly client: DaemonClient
  readonly prompt: string | undefined
  readonly create: SessionCreate
  /** Go on in this session instead of a new one. */
  readonly session: Session | undefined
  readonly parkWaitMs: number
  readonly interrupt: Interrupt
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
}

export async function run(input: RunInput, out: Output): Promise<number> {
  input.interrupt.throwIfAsked()
  const session = input.session ?? (await input.client.createSession(input.create))
  input.onSession?.(session)
  const started = await startTurn(input, session)
  input.client.goesOnWith(started.turnId)
  const view = new TurnView()
  if (input.prompt === undefined) await learn(input, session, started, view)
  input.interrupt.reaches((reason) => input.client.cancel(started.turnId, reason)) // I2
  const result = await follow(input, session, started, view, out)
  if (out.json) out.result({ sessionId: session.id, ...result, ...input.about })
  else for (const line of summary(result, view, session)) paint(out, [line])
  return exitCodeFor(result)
}

// ---- details, in the order they are used above ----

async function startTurn(input: RunInput, session: Session): Promise<{ turnId: string; after: number }> {
  if (input.prompt !== undefined) {
    const receipt = await input.client.prompt(session.id, input.prompt, { key: randomUUIDv7() })
    return { turnId: receipt.turnId, after: receipt.seq - 1 }
  }
  if (session.turnId === null) {
    const ended = await endedMeanwhile(input.client, session)
    if (ended !== undefined) return { turnId: ended, after: 0 }
    throw new Fault('invalid_request', {
      error: `session ${session.id} has no turn to go on with; give it a prompt: breakfall run --continue "PROMPT"`,
    })
  }
  const turn = await input.client.turn(session.turnId)
  if (turn.state === 'parked' || turn['live'] === false) await input.client.resume(turn.id).catch(goesOnAlready)
  return { turnId: turn.id, after: session.lastSeq }
}

/** The daemon that was started for it may have brought the turn to its end before it was asked for it. */
async function endedMeanwhile(client: DaemonClient, session: Session): Promise<string | undefined> {
  const turnId = await lastTurnId(client, session)
  const { endedAt = null } = turnId === undefined ? {} : await client.turn(turnId)
  return endedAt !== null && Date.parse(endedAt) >= performance.timeOrigin ? turnId : undefined
}

/** What a turn that is taken up has lived through before, so that the summary can name it. */
async function learn(
  { client, interrupt: { signal } }: RunInput,
  session: Session,
  { turnId, after }: { turnId: string; after: number },
  view: TurnView,
): Promise<void> {
  if (after === 0) return
  for await (const event of client.events(session.id, { after: 0, signal })) {
    if (event.turnId === turnId) view.learn(event)
    if (event.seq >= after) return
  }
}

function goesOnAlready(error: unknown): void {
  if (!isFault(error) || error.category !== 'turn_not_parked') throw error
}

async function follow(
  input: RunInput,
  session: Session,
  started: { turnId: string; after: number },
  view: TurnView,
  out: Output,
): Promise<RunResult> {
  const { turnId, after } = started
  const parked = new ParkTimer(input.parkWaitMs)
  const { signal } = parked
  try {
    for await (const event of input.client.events(session.id, { after, signal })) {
      input.onEvent?.(event)
      if (out.json) out.data(event)
      if (event.turnId !== turnId) continue
      const pieces = view.show(event)
      if (!out.json) paint(out, pieces)
      if (event.type === 'parked') parked.start(event)
      else if (event.type !== 'turn-queued') parked.stop()
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
  } finally {
    parked.stop()
  }
  const fault = (parked.event?.fault ?? null) as FaultReport | null
  return { outcome: 'parked', turnId, text: '', fault, faultsSurvived: view.survived.length } // I1
}

/** Waits on a parked turn for a while, then gives up waiting: the turn itself stays parked and goes on later. */
class ParkTimer {
  readonly #waitMs: number
  readonly #abort = new AbortController()
  #timer: NodeJS.Timeout | undefined
  event: SessionEventOf<'parked'> | undefined

  constructor(waitMs: number) {
    this.#waitMs = waitMs
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  start(event: SessionEventOf<'parked'>): void {
    this.event = event
    this.#timer ??= setTimeout(() => this.#abort.abort(), this.#waitMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

function exitCodeFor(result: RunResult): number {
  switch (result.outcome) {
    case 'finished':
      return EXIT_CODES.finished
    case 'cancelled':
      return EXIT_CODES.cancelled
    case 'parked':
      return result.fault?.class === 'needs_action' && /auth/.test(result.fault.category)
        ? EXIT_CODES.credentials
        : EXIT_CODES.transient
    case 'failed':
      return result.fault === null ? EXIT_CODES.failed : exitCodeOf(result.fault)
  }
}
