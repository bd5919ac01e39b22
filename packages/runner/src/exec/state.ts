/**
 * The life of an exec as a state machine. Pure: `transition` returns the next state and what to do; exec.ts does it.
 *
 *     reserved ─turn─▶ spawning ─spawned─▶ starting ─started─▶ running ─┐
 *         └─adopted (an earlier runner's)─▶ recovered ─started─▶ running ┤ exit reported, keeper lost, kill failed
 *                                                                        ▼
 *     stop, refused, orphaned ────────────────────────────────────────▶ ending ─settled─▶ over
 *     every phase but over ─release─▶ released: this process leaves the exec to its keeper
 *
 * I1  An exec is spawned once. Only a first keeper that died before it claimed the job is replaced, once; an exec that was
 *     recovered, or that has started, is never spawned again.
 * I2  The first reason to stop counts. It is noted on disk before the first signal.
 * I3  An exec that was claimed ends because its keeper said so or is certainly gone, never because of a timer alone.
 * I4  `settle` is asked for once, and `over` is final.
 */
import type { Diagnostic } from '@breakfall/faults'
import type { SpawnFailure } from '@breakfall/wire'
import type { EndReason } from './exit-record.ts'
import type { ExecEnd } from './exec-folder.ts'

/** A place in the spawn queue; called to give it back. */
export type Slot = () => void

/** Why no command could be started. */
export type Refusal = { readonly reason: SpawnFailure; readonly diagnostic: Diagnostic }

/** `Run` is what a keeper's job holds (keeper, process tree, watch); opaque here, so tests need no processes. */
export type ExecState<Run> =
  | { readonly phase: 'reserved' }
  | { readonly phase: 'spawning'; readonly slot: Slot; readonly attempt: 1 | 2 }
  | {
      readonly phase: 'starting'
      readonly slot: Slot
      readonly attempt: 1 | 2
      readonly run: Run
      readonly stop: EndReason | null
    }
  | { readonly phase: 'recovered'; readonly run: Run; readonly stop: EndReason | null }
  | { readonly phase: 'running'; readonly run: Run; readonly startedAtMs: number; readonly stop: EndReason | null }
  | Ending<Run>
  | { readonly phase: 'over'; readonly end: ExecEnd }
  | { readonly phase: 'released' }

export type Ending<Run> = { readonly phase: 'ending' } & (
  | {
      /** A keeper claimed it: the command may have run. */
      readonly claimed: true
      readonly run: Run
      readonly startedAtMs: number | null
      readonly stop: EndReason | null
    }
  | {
      /** Nothing ran. `run` is what a lost keeper left behind. */
      readonly claimed: false
      readonly run: Run | null
      readonly refusal: Refusal | null
      readonly stop: EndReason | null
    }
)

export type ExecInput<Run> =
  | { readonly type: 'turn'; readonly slot: Slot }
  | { readonly type: 'spawned'; readonly run: Run }
  /** No keeper could be given the job. */
  | { readonly type: 'refused'; readonly refusal: Refusal }
  /** Of an earlier runner, and its keeper is alive. */
  | {
      readonly type: 'adopted'
      readonly run: Run
      readonly startedAtMs: number | null
      readonly stop: EndReason | null
    }
  /** Of an earlier runner, and its keeper is gone. */
  | {
      readonly type: 'orphaned'
      readonly run: Run
      readonly startedAtMs: number | null
      readonly stop: EndReason | null
    }
  /** Of an earlier runner, and no keeper had claimed it. */
  | { readonly type: 'never_claimed'; readonly stop: EndReason | null }
  | { readonly type: 'started'; readonly atMs: number }
  | { readonly type: 'stop'; readonly reason: EndReason; readonly graceMs: number }
  /** `ranNothing`: the keeper certainly died before it started the command, and `refusal` says of what. */
  | {
      readonly type: 'keeper_lost'
      readonly claimed: boolean
      readonly ranNothing: boolean
      readonly refusal: Refusal
    }
  | { readonly type: 'exit_reported' }
  | { readonly type: 'kill_failed' }
  | { readonly type: 'settled'; readonly end: ExecEnd }
  | { readonly type: 'release' }

export type ExecAction<Run> =
  | { readonly do: 'spawn'; readonly newKeeper: boolean }
  | { readonly do: 'free_slot'; readonly slot: Slot }
  | { readonly do: 'watch'; readonly run: Run }
  | { readonly do: 'unwatch'; readonly run: Run }
  /** A survivor's bytes may still be in the pipes. */
  | { readonly do: 'open_output' }
  | { readonly do: 'log_start'; readonly atMs: number }
  | { readonly do: 'note_reason'; readonly reason: EndReason }
  | { readonly do: 'kill'; readonly run: Run; readonly reason: EndReason; readonly graceMs: number | null }
  | { readonly do: 'kill_keeper'; readonly run: Run; readonly reason: EndReason }
  | { readonly do: 'settle' }
  | { readonly do: 'leave'; readonly run: Run }

export type Step<Run> = { readonly state: ExecState<Run>; readonly actions: readonly ExecAction<Run>[] }

export function transition<Run>(state: ExecState<Run>, input: ExecInput<Run>): Step<Run> {
  switch (input.type) {
    case 'turn': {
      if (state.phase !== 'reserved') return to(state, { do: 'free_slot', slot: input.slot }) // it was stopped meanwhile
      return to({ phase: 'spawning', slot: input.slot, attempt: 1 }, { do: 'spawn', newKeeper: false })
    }
    case 'spawned': {
      if (state.phase !== 'spawning') return impossible(state, input)
      const { slot, attempt } = state
      return to({ phase: 'starting', slot, attempt, run: input.run, stop: null }, { do: 'watch', run: input.run })
    }
    case 'refused':
      return refused(state, input.refusal)
    case 'adopted': {
      if (state.phase !== 'reserved') return impossible(state, input)
      const { run, startedAtMs, stop } = input
      const next: ExecState<Run> =
        startedAtMs === null ? { phase: 'recovered', run, stop } : { phase: 'running', run, startedAtMs, stop }
      const kill: ExecAction<Run>[] = stop === null ? [] : [{ do: 'kill', run, reason: stop, graceMs: null }]
      return to(next, { do: 'watch', run }, ...kill)
    }
    case 'orphaned': {
      if (state.phase !== 'reserved') return impossible(state, input)
      const { run, startedAtMs, stop } = input
      return to({ phase: 'ending', claimed: true, run, startedAtMs, stop }, { do: 'open_output' }, { do: 'settle' })
    }
    case 'never_claimed': {
      if (state.phase !== 'reserved') return impossible(state, input)
      return neverRan<Run>(null, null, input.stop)
    }
    case 'started':
      return started(state, input.atMs)
    case 'stop':
      return stop(state, input.reason, input.graceMs)
    case 'keeper_lost':
      return keeperLost(state, input)
    case 'exit_reported':
      return isLive(state) ? ending(state) : to(state)
    case 'kill_failed': {
      if (!isLive(state) || state.stop === null) return to(state) // its keeper may serve another exec by now
      return ending(state, { do: 'kill_keeper', run: state.run, reason: state.stop })
    }
    case 'settled':
      return state.phase === 'ending' ? to({ phase: 'over', end: input.end }) : impossible(state, input)
    case 'release': {
      if (state.phase === 'over') return to(state)
      const run = runOf(state)
      const actions: ExecAction<Run>[] =
        run === null
          ? []
          : [
              { do: 'unwatch', run },
              { do: 'leave', run },
            ]
      return to({ phase: 'released' }, ...actions)
    }
  }
}

/** When the command started; null if that is not known. */
export function startedAtMsOf<Run>(state: ExecState<Run>): number | null {
  if (state.phase === 'over') return state.end.startedAtMs
  if (state.phase === 'running') return state.startedAtMs
  return state.phase === 'ending' && state.claimed ? state.startedAtMs : null
}

/** What the keeper's job holds, as long as there is one. */
export function runOf<Run>(state: ExecState<Run>): Run | null {
  return isLive(state) || state.phase === 'ending' ? state.run : null
}

// ---- details, in the order they are used above ----

type Live<Run> = Extract<ExecState<Run>, { phase: 'starting' | 'recovered' | 'running' }>

const to = <Run>(state: ExecState<Run>, ...actions: readonly ExecAction<Run>[]): Step<Run> => ({ state, actions })

const isLive = <Run>(state: ExecState<Run>): state is Live<Run> =>
  state.phase === 'starting' || state.phase === 'recovered' || state.phase === 'running'

const slotOf = <Run>(state: ExecState<Run>): readonly ExecAction<Run>[] =>
  'slot' in state ? [{ do: 'free_slot', slot: state.slot }] : []

function neverRan<Run>(run: Run | null, refusal: Refusal | null, reason: EndReason | null): Step<Run> {
  return to({ phase: 'ending', claimed: false, run, refusal, stop: reason }, { do: 'settle' })
}

function refused<Run>(state: ExecState<Run>, refusal: Refusal): Step<Run> {
  if (state.phase === 'spawning') return after<Run>(slotOf(state), neverRan<Run>(null, refusal, 'spawn_failed'))
  if (!isLive(state)) return to(state)
  const { run } = state
  return after([...slotOf(state), { do: 'unwatch', run }], neverRan(run, refusal, state.stop ?? 'spawn_failed'))
}

function started<Run>(state: ExecState<Run>, atMs: number): Step<Run> {
  if (state.phase === 'starting' || state.phase === 'recovered') {
    const { run, stop: reason } = state
    return to(
      { phase: 'running', run, startedAtMs: atMs, stop: reason },
      { do: 'log_start', atMs },
      ...slotOf(state), // the next command may be started
    )
  }
  if (state.phase === 'ending' && state.claimed && state.startedAtMs === null)
    return to({ ...state, startedAtMs: atMs }, { do: 'log_start', atMs })
  return to(state)
}

/** I2: the first reason counts. */
function stop<Run>(state: ExecState<Run>, reason: EndReason, graceMs: number): Step<Run> {
  const note: ExecAction<Run> = { do: 'note_reason', reason }
  if (state.phase === 'reserved' || state.phase === 'spawning')
    return after([note, ...slotOf<Run>(state)], neverRan<Run>(null, null, reason))
  if (!isLive(state) || state.stop !== null) return to(state)
  return to({ ...state, stop: reason }, note, { do: 'kill', run: state.run, reason, graceMs })
}

function keeperLost<Run>(
  state: ExecState<Run>,
  { claimed, ranNothing, refusal }: Extract<ExecInput<Run>, { type: 'keeper_lost' }>,
): Step<Run> {
  if (!isLive(state)) return to(state)
  if (state.phase !== 'starting') return ending(state) // I1, I3: it ran, even if its claim is gone from the disk
  const { slot, attempt, run, stop: reason } = state
  if (!claimed && attempt === 1 && reason === null)
    return to({ phase: 'spawning', slot, attempt: 2 }, { do: 'unwatch', run }, { do: 'spawn', newKeeper: true }) // I1: replaced once, before it claimed
  return claimed && !ranNothing ? ending(state) : refused(state, refusal) // I3: never by a timer alone
}

function ending<Run>(state: Live<Run>, ...first: readonly ExecAction<Run>[]): Step<Run> {
  const { run, stop: reason } = state
  const startedAtMs = state.phase === 'running' ? state.startedAtMs : null
  return to(
    { phase: 'ending', claimed: true, run, startedAtMs, stop: reason },
    ...slotOf(state),
    { do: 'unwatch', run },
    ...first,
    { do: 'settle' },
  )
}

function after<Run>(first: readonly ExecAction<Run>[], step: Step<Run>): Step<Run> {
  return { state: step.state, actions: [...first, ...step.actions] }
}

function impossible<Run>(state: ExecState<Run>, input: ExecInput<Run>): never {
  throw new Error(`an exec in phase ${state.phase} cannot take "${input.type}"`)
}
