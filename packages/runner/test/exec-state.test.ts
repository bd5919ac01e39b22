/** The state machine of an exec: each transition, and what no sequence of inputs may lead to. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { lostEnd } from '../src/box/repair.ts'
import { spawnRefused } from '../src/exec/diagnostics.ts'
import {
  type ExecAction,
  type ExecInput,
  type ExecState,
  type Refusal,
  startedAtMsOf,
  transition,
} from '../src/exec/state.ts'

type State = ExecState<string>
type Input = ExecInput<string>
type Phase = State['phase']

const slot = (): void => undefined
const refusal: Refusal = { reason: 'no_process', diagnostic: spawnRefused('EAGAIN') }
const end = lostEnd(7)

const LOST_UNCLAIMED: Input = { type: 'keeper_lost', claimed: false, ranNothing: true, refusal }
const LOST_BEFORE_COMMAND: Input = { type: 'keeper_lost', claimed: true, ranNothing: true, refusal }
const LOST: Input = { type: 'keeper_lost', claimed: true, ranNothing: false, refusal }
const KILL: Input = { type: 'stop', reason: 'killed', graceMs: 5 }

const reserved: State = { phase: 'reserved' }
const spawning: State = { phase: 'spawning', slot, attempt: 1 }
const starting: State = { phase: 'starting', slot, attempt: 1, run: 'r1', stop: null }
const secondStart: State = { phase: 'starting', slot, attempt: 2, run: 'r2', stop: null }
const recovered: State = { phase: 'recovered', run: 'r1', stop: null }
const running: State = { phase: 'running', run: 'r1', startedAtMs: 3, stop: null }
const ending: State = { phase: 'ending', claimed: true, run: 'r1', startedAtMs: 3, stop: null }
const neverRan: State = { phase: 'ending', claimed: false, run: null, refusal: null, stop: 'killed' }
const over: State = { phase: 'over', end }
const released: State = { phase: 'released' }

const names = (actions: readonly ExecAction<string>[]): string => actions.map((action) => action.do).join(' ')

describe('each input in each phase that expects it', () => {
  const rows: readonly [string, State, Input, Phase, string][] = [
    ['its turn spawns it', reserved, { type: 'turn', slot }, 'spawning', 'spawn'],
    ['a keeper takes the job', spawning, { type: 'spawned', run: 'r1' }, 'starting', 'watch'],
    ['the command starts', starting, { type: 'started', atMs: 3 }, 'running', 'log_start free_slot'],
    ['the keeper reports the exit', running, { type: 'exit_reported' }, 'ending', 'unwatch settle'],
    ['an exit before a start', starting, { type: 'exit_reported' }, 'ending', 'free_slot unwatch settle'],
    ['the end is written', ending, { type: 'settled', end }, 'over', ''],
    ['no keeper to be had', spawning, { type: 'refused', refusal }, 'ending', 'free_slot settle'],
    ['stopped before its turn', reserved, KILL, 'ending', 'note_reason settle'],
    ['stopped while it is spawned', spawning, KILL, 'ending', 'note_reason free_slot settle'],
    ['stopped while it starts', starting, KILL, 'starting', 'note_reason kill'],
    ['stopped while it runs', running, KILL, 'running', 'note_reason kill'],
    ['a first keeper dies unclaimed', starting, LOST_UNCLAIMED, 'spawning', 'unwatch spawn'],
    ['a second keeper dies unclaimed', secondStart, LOST_UNCLAIMED, 'ending', 'free_slot unwatch settle'],
    ['a keeper dies before the command', starting, LOST_BEFORE_COMMAND, 'ending', 'free_slot unwatch settle'],
    ['a keeper dies with the command', starting, LOST, 'ending', 'free_slot unwatch settle'],
    ['a keeper dies while it runs', running, LOST, 'ending', 'unwatch settle'],
    [
      'adopted before it started',
      reserved,
      { type: 'adopted', run: 'r1', startedAtMs: null, stop: null },
      'recovered',
      'watch',
    ],
    ['adopted while it runs', reserved, { type: 'adopted', run: 'r1', startedAtMs: 3, stop: null }, 'running', 'watch'],
    [
      'adopted while it is being stopped',
      reserved,
      { type: 'adopted', run: 'r1', startedAtMs: 3, stop: 'timed_out' },
      'running',
      'watch kill',
    ],
    ['a recovered exec starts', recovered, { type: 'started', atMs: 3 }, 'running', 'log_start'],
    [
      'its keeper was gone after a restart',
      reserved,
      { type: 'orphaned', run: 'r1', startedAtMs: null, stop: null },
      'ending',
      'open_output settle',
    ],
    ['no keeper had claimed it', reserved, { type: 'never_claimed', stop: null }, 'ending', 'settle'],
    ['its turn comes too late', neverRan, { type: 'turn', slot }, 'ending', 'free_slot'],
    ['its turn comes after a release', released, { type: 'turn', slot }, 'released', 'free_slot'],
    ['left to its keeper', running, { type: 'release' }, 'released', 'unwatch leave'],
    ['left in the queue', reserved, { type: 'release' }, 'released', ''],
  ]
  for (const [name, from, input, phase, actions] of rows) {
    test(name, () => {
      const step = transition(from, input)
      assert.deepEqual([step.state.phase, names(step.actions)], [phase, actions])
    })
  }
})

test('an exec that has started is never spawned again, even if its claim is gone from the disk', () => {
  for (const from of [recovered, running]) {
    const { state } = transition(from, LOST_UNCLAIMED)
    assert.ok(state.phase === 'ending' && state.claimed)
  }
})

test('a keeper that dies unclaimed while the exec is being stopped is not replaced', () => {
  const stopped = transition(starting, KILL).state
  const { state } = transition(stopped, LOST_UNCLAIMED)
  assert.ok(state.phase === 'ending' && !state.claimed && state.stop === 'killed')
})

test('only the first reason to stop counts', () => {
  const first = transition(running, KILL).state
  const second = transition(first, { type: 'stop', reason: 'timed_out', graceMs: 5 })
  assert.deepEqual([second.state, second.actions], [first, []])
})

test('a failed kill ends only an exec that is being killed', () => {
  assert.deepEqual(transition(running, { type: 'kill_failed' }).actions, [])
  assert.deepEqual(transition(ending, { type: 'kill_failed' }).actions, [])
  const stopped = transition(running, KILL).state
  assert.equal(names(transition(stopped, { type: 'kill_failed' }).actions), 'unwatch kill_keeper settle')
})

test('the start is logged before the end, once', () => {
  const late: State = { phase: 'ending', claimed: true, run: 'r1', startedAtMs: null, stop: null }
  const step = transition(late, { type: 'started', atMs: 9 })
  assert.equal(startedAtMsOf(step.state), 9)
  assert.deepEqual(transition(step.state, { type: 'started', atMs: 10 }).actions, [])
})

test('over is final', () => {
  for (const input of [
    KILL,
    LOST,
    { type: 'exit_reported' },
    { type: 'release' },
    { type: 'started', atMs: 1 },
  ] as const)
    assert.deepEqual(transition<string>(over, input), { state: over, actions: [] })
})

test('an input that cannot happen in a phase is a mistake of the caller, and throws', () => {
  assert.throws(() => transition(running, { type: 'spawned', run: 'r2' }), /phase running cannot take "spawned"/)
  assert.throws(() => transition(over, { type: 'settled', end }), /phase over cannot take "settled"/)
})

/** Numbers from 0 to 1 that a seed fixes (mulberry32). */
function numbersOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** What may happen next, given the state: what the I/O around the machine can report then. */
function possible(state: State, hadTurn: boolean): readonly Input[] {
  if (state.phase === 'spawning') return [{ type: 'spawned', run: 'r' }, { type: 'refused', refusal }, KILL]
  return [
    ...(hadTurn ? [] : [{ type: 'turn', slot } as const]),
    ...(state.phase === 'ending' ? [{ type: 'settled', end } as const] : []),
    KILL,
    { type: 'stop', reason: 'timed_out', graceMs: 0 },
    { type: 'started', atMs: 1 },
    LOST,
    LOST_BEFORE_COMMAND,
    LOST_UNCLAIMED,
    { type: 'exit_reported' },
    { type: 'kill_failed' },
    { type: 'release' },
  ]
}

test('in 5000 random lives nothing is spawned, settled, killed or given back twice', () => {
  for (let seed = 1; seed <= 5_000; seed += 1) {
    const next = numbersOf(seed)
    let state: State = reserved
    let hadTurn = false
    const done: string[] = []
    for (let i = 0; i < 20; i += 1) {
      const choices = possible(state, hadTurn)
      const input = choices[Math.floor(next() * choices.length)] ?? KILL
      hadTurn ||= input.type === 'turn'
      const step: { readonly state: State; readonly actions: readonly ExecAction<string>[] } = transition(state, input)
      state = step.state
      done.push(...step.actions.map((action) => action.do))
    }
    const times = (name: string): number => done.filter((action) => action === name).length
    const life = `seed ${seed}: ${done.join(' ')}`
    assert.ok(times('spawn') <= 2 && times('spawn') <= 1 + times('unwatch'), life)
    for (const name of ['settle', 'kill', 'note_reason', 'log_start', 'free_slot', 'leave'])
      assert.ok(times(name) <= 1, `${name}: ${life}`)
    assert.ok(times('kill') <= times('note_reason'), life)
    if (hadTurn && (state.phase === 'over' || state.phase === 'ending')) assert.equal(times('free_slot'), 1, life)
    if (times('log_start') === 1) assert.ok(!done.slice(done.indexOf('log_start')).includes('spawn'), life)
  }
})
