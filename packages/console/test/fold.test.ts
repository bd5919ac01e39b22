/** The fold: the same view whether events come live, replayed or in pieces, even if some of them are wrong. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cardLines, cardMarkdown, cardSvg } from '../src/fold/card.ts'
import { fold } from '../src/fold/fold.ts'
import { stepsWith } from '../src/fold/search.ts'
import { answerIn, attemptsIn, emptyFold, type SessionFold, survivedIn, type TurnView } from '../src/fold/view.ts'
import type { SessionEvent } from '@breakfall/wire'
import { countFaults, NO_FAULTS } from '@breakfall/wire/turn'
import { stateOfTurn } from '../src/ui/states.ts'
import { axisOf, ticksOf } from '../src/turn/axis.ts'
import { groupsOf } from '../src/turn/lanes.ts'
import { segmentsOf } from '../src/turn/segments.ts'
import { callLine, WORDS } from '../src/turn/words.ts'
import { type Event, Journal } from './kit/journal.ts'

const START = Date.parse('2026-11-16T08:00:00.000Z')

function foldAll(events: readonly unknown[]): SessionFold {
  const view = emptyFold()
  for (const event of events) fold(view, event)
  return view
}

function onlyTurn(events: readonly unknown[]): TurnView {
  const [turn] = foldAll(events).turns
  assert.ok(turn !== undefined)
  return turn
}

/** A turn as random as a bad night: every kind of event, in an order that a daemon could write. */
const journals = fc
  .array(
    fc.constantFrom(
      'say',
      'think',
      'cut',
      'continue',
      'stall',
      'tool',
      'lookup',
      'park',
      'ask',
      'kill',
      'unknown',
      'strange',
      'step',
    ),
    { maxLength: 40 },
  )
  .map((moves) => {
    const journal = new Journal('s1', START).turn('t1', 'go').wait(20).step()
    for (const move of moves) {
      if (move === 'say') journal.say('some words of an answer', 90)
      if (move === 'think') journal.say('thoughts', 30, 'reasoning-delta')
      if (move === 'cut')
        journal.say('lost words', 40).retry('model_stream_interrupted', 'read ECONNRESET', 100).wait(120)
      if (move === 'continue')
        journal.say('kept words', 40).retry('model_stream_interrupted', 'reset', 50, { action: 'resume' }).wait(60)
      if (move === 'stall')
        journal.say('and then', 40).wait(9_000).retry('model_stream_stalled', 'silence', 20).wait(30)
      if (move === 'tool') journal.call('bash', { command: 'ls' }).output('a\nb\n').result('ok', 'a\nb').step()
      if (move === 'lookup')
        journal
          .call('bash', { command: 'ls' })
          .retry('runner_unreachable', 'refused', 70, { action: 'resolve' })
          .wait(80)
          .output('x')
          .result('ok', 'x')
          .step()
      if (move === 'park')
        journal
          .add('parked', { fault: journal.fault('model_unreachable', 'refused'), resumeAt: null })
          .wait(90_000)
          .add('resumed', { because: 'signal' })
      if (move === 'ask')
        journal
          .add('parked', {
            fault: journal.fault('approval_needed', 'asks'),
            resumeAt: null,
            because: 'approval_needed',
          })
          .wait(90_000)
          .add('resumed', { because: 'person' })
      if (move === 'kill') journal.wait(4_000).add('taken-over', { epoch: 2 })
      if (move === 'unknown')
        journal.call('bash', { command: 'deploy' }).result('unknown', 'no record of it', null).step()
      if (move === 'strange') journal.add('from-the-future', { anything: [1, 2] })
      if (move === 'step') journal.step()
    }
    return journal.say('done', 20).end('done', 0).events
  })

test('the view is the same whether events come at once, twice, or over connections that overlap', () => {
  fc.assert(
    fc.property(journals, fc.array(fc.nat(200), { maxLength: 5 }), (events, cuts) => {
      const whole = foldAll(events)
      const pieces: Event[] = []
      let from = 0
      for (const cut of [...cuts.map((n) => n % (events.length + 1)).sort((a, b) => a - b), events.length]) {
        pieces.push(...events.slice(Math.max(0, from - 3), cut)) // a replay that overlaps
        from = Math.max(from, cut)
      }
      assert.deepEqual(foldAll(pieces), whole)
    }),
    { numRuns: 150 },
  )
})

test('a turn without steps left needs a person, also if an earlier version parked it', () => {
  for (const category of ['steps_spent', 'quota_exceeded'] as const) {
    const journal = new Journal('s', START).turn('t', 'go').step().say('and on', 3)
    const { events } = journal.add('parked', { fault: journal.fault(category, 'x'), resumeAt: null })
    assert.equal(stateOfTurn(onlyTurn(events), undefined), 'needs')
  }
})

test('a consumer of the fold holds exactly the journalled answer, and survived counts like the daemon', () => {
  fc.assert(
    fc.property(journals, (events) => {
      const turn = onlyTurn(events)
      assert.equal(answerIn(turn), 'done')
      const { met, open } = (events as readonly unknown[] as readonly SessionEvent[]).reduce(countFaults, NO_FAULTS)
      assert.equal(survivedIn(turn), met - open)
      assert.equal(
        cardLines(turn).reduce((sum, line) => sum + Number(line.split(' ')[0]?.replaceAll(',', '')), 0),
        met - open,
      )
    }),
    { numRuns: 100 },
  )
})

test('every segment of the thread has a name, lies on the axis, and ends after it starts', () => {
  fc.assert(
    fc.property(journals, (events) => {
      const turn = onlyTurn(events)
      const now = turn.endedAt ?? 0
      const segments = turn.steps.flatMap((step) => segmentsOf(step, turn, now, WORDS))
      const axis = axisOf(segments, turn.startedAt ?? 0, now)
      for (const { name, from, to } of segments) {
        assert.ok(name.length > 5, name)
        assert.ok(to >= from)
        assert.ok(axis.at(from) >= 0 && axis.at(to) <= 1 && axis.at(from) <= axis.at(to))
      }
      assert.ok(ticksOf(axis, 6).length <= 7)
      assert.equal(
        groupsOf(turn, 'all').reduce((sum, { steps }) => sum + steps.length, 0),
        turn.steps.length,
      )
      assert.equal(
        groupsOf(turn, new Set()).reduce((sum, { steps }) => sum + steps.length, 0),
        turn.steps.length,
      )
    }),
    { numRuns: 100 },
  )
})

test('events with missing, extra or wrong fields cost one note each, and nothing throws', () => {
  const sane = new Journal('s1', START).turn('t1', 'go').step().say('words', 30).end('words', 0).events
  fc.assert(
    fc.property(
      fc.nat(sane.length - 1),
      fc.constantFrom('step', 'attempt', 'part', 'text', 'usage', 'prompt', 'at', 'turnId', 'type'),
      fc.jsonValue(),
      (index, field, value) => {
        const broken = sane.map((event, at) => (at === index ? { ...event, [field]: value } : event))
        const view = foldAll([...broken, value, null, 7, 'x'])
        assert.ok(view.turns.length >= 1)
        for (const turn of view.turns) {
          survivedIn(turn)
          for (const step of turn.steps) segmentsOf(step, turn, START + 1_000, WORDS)
        }
      },
    ),
    { numRuns: 300 },
  )
})

test('a stall is drawn as silence, a wait never as work, and a killed daemon as a gap', () => {
  const journal = new Journal('s1', START)
    .turn('t1', 'go')
    .step()
    .say('and then', 100)
    .wait(8_000)
    .retry('model_stream_stalled', 'silence', 500)
    .wait(520)
    .say('better', 100)
    .wait(4_000)
    .add('taken-over', { epoch: 2 })
    .say(' now', 50)
  const turn = onlyTurn(journal.end('better now', 2).events)
  const [step] = turn.steps
  assert.ok(step !== undefined)
  const kinds = segmentsOf(step, turn, turn.endedAt ?? 0, WORDS).map(({ kind, from, to }) => [kind, to - from])
  assert.deepEqual(kinds, [
    ['work', 100],
    ['silent', 8_000],
    ['wait', 500],
    ['work', 120],
    ['gone', 4_000],
    ['work', 50],
  ])
})

test('a daemon killed during a wait changes nothing about the wait: the turn still retries, and "retry now" works', () => {
  const waiting = new Journal('s1', START).turn('t1', 'go').step().retry('model_rate_limited', '429', 60_000)
  const killed = onlyTurn(waiting.wait(4_000).add('taken-over', { epoch: 2 }).events)
  assert.deepEqual([killed.status.state, killed.wait?.until], ['retrying', START + 60_000])
  const late = onlyTurn(waiting.wait(90_000).add('taken-over', { epoch: 3 }).events)
  assert.deepEqual([late.status.state, late.wait], ['running', null])
})

test('an attempt that failed before its first word stays: parked, cancelled or failed, it is counted and drawn', () => {
  const asked = (): Journal =>
    new Journal('s1', START).turn('t1', 'go').step().retry('model_overloaded', '503', 100).wait(130)
  const parked = asked()
  const fault = parked.fault('model_overloaded', '503 again')
  const ends: readonly (readonly [readonly Event[], readonly string[]])[] = [
    [parked.add('parked', { fault, resumeAt: null }).events, ['failed', 'failed']],
    [asked().fail('cancelled', 'cancelled by the user').events, ['failed', 'cut']],
    [asked().fail('model_bad_request', '400').events, ['failed', 'cut']],
    [asked().wait(-80).fail('cancelled', 'during the wait').events, ['failed']],
  ]
  for (const [events, states] of ends) {
    const turn = onlyTurn(events)
    assert.deepEqual(
      turn.steps[0]?.attempts.map(({ state }) => state),
      states,
    )
    assert.equal(attemptsIn(turn), states.length)
    const [step] = turn.steps
    assert.ok(step !== undefined)
    const drawn = new Set(segmentsOf(step, turn, START + 1_000, WORDS).map(({ attempt }) => attempt))
    assert.equal([...drawn].filter((n) => n !== null).length, states.length)
  }
  assert.equal(onlyTurn(parked.events).steps[0]?.attempts[1]?.fault?.errorRaw, '503 again')
})

test('a call of somebody else’s tool is said with everything that it was given, whatever the names', () => {
  const journal = new Journal('s1', START).turn('t1', 'go').step()
  const line = (tool: string, given: Readonly<Record<string, unknown>>): string => {
    const call = onlyTurn(journal.call(tool, given).events).steps[0]?.calls.at(-1)
    assert.ok(call !== undefined)
    return callLine(call)
  }
  assert.equal(line('mcp__disk__clean', { path: 'README.md', all: true }), '{"path":"README.md","all":true}')
  assert.equal(line('write', { path: 'README.md', content: 'shown below' }), 'README.md')
  assert.equal(line('bash', { command: 'ls', path: 'x' }), 'ls')
})

test('a wait is over with the first word of the next attempt, even if the page’s clock lags behind', () => {
  const journal = new Journal('s1', START).turn('t1', 'go').step().retry('model_overloaded', '503', 500)
  const waitOf = (): number | null | undefined => onlyTurn(journal.events).steps[0]?.attempts[0]?.wait?.endedAt
  assert.equal(waitOf(), null)
  journal.wait(600).say('hello', 10)
  assert.equal(waitOf(), START + 500)
})

test('a long wait folds on the axis, so the work beside it stays visible', () => {
  const journal = new Journal('s1', START).turn('t1', 'go').step().say('a', 1_000)
  journal
    .add('parked', { fault: journal.fault('model_unreachable', 'refused'), resumeAt: null })
    .wait(8 * 3_600_000)
    .add('resumed', { because: 'signal' })
    .say('b', 1_000)
  const turn = onlyTurn(journal.end('ab', 1).events)
  const segments = turn.steps.flatMap((step) => segmentsOf(step, turn, turn.endedAt ?? 0, WORDS))
  const axis = axisOf(segments, turn.startedAt ?? 0, turn.endedAt ?? 0)
  assert.equal(axis.folds.length, 1)
  assert.ok(axis.at(START + 1_000) > 0.4, 'the first second of work has a good part of the width')
})

test('usage with an unknown attempt is counted as unknown, not as zero', () => {
  const turn = onlyTurn(
    new Journal('s1', START)
      .turn('t1', 'go')
      .step()
      .say('x', 10)
      .retry('model_stream_interrupted', 'reset', 10)
      .wait(20)
      .say('x', 10)
      .end('x', 1).events,
  )
  assert.equal(turn.tokens.unknown, 1)
})

test('look-ups stay inside their call and leave the step’s attempts alone', () => {
  const journal = new Journal('s1', START).turn('t1', 'go').step().say('x', 10).call('bash', { command: 'ls' })
  for (let n = 0; n < 3; n += 1)
    journal.retry('runner_unreachable', 'refused', 50, { action: 'resolve', event: { callId: 'c1' } }).wait(60)
  const turn = onlyTurn(journal.output('a').result('ok', 'a').step().say('y', 10).end('y', 3).events)
  assert.equal(turn.steps[0]?.attempts.length, 1)
  assert.equal(turn.steps[0]?.calls[0]?.lookups.length, 3)
  assert.equal(survivedIn(turn), 3)
})

test('search finds text, thrown-away text, commands, output and categories in folded steps', () => {
  const journal = new Journal('s1', START).turn('t1', 'go')
  for (let n = 1; n <= 9; n += 1)
    journal
      .step()
      .say(`needle${n}`, 10)
      .call('bash', { command: `cmd${n}` })
      .output(`out${n}\n`)
      .result('ok', '')
  const turn = onlyTurn(
    journal.step().say('lost words', 10).retry('model_overloaded', '503', 5).wait(5).say('x', 5).end('x', 1).events,
  )
  assert.deepEqual(stepsWith(turn, 'NEEDLE4'), [4])
  assert.deepEqual(stepsWith(turn, 'cmd7'), [7])
  assert.deepEqual(stepsWith(turn, 'out2'), [2])
  assert.deepEqual(stepsWith(turn, 'lost words'), [10])
  assert.deepEqual(stepsWith(turn, 'model_overloaded'), [10])
})

test('the card holds any title as text', () => {
  const turn = onlyTurn(new Journal('s1', START).turn('t1', 'go').step().say('x', 10).end('x', 0).events)
  const svg = cardSvg(turn, '<script>alert(1)</script>\u202e')
  assert.ok(!svg.includes('<script>'))
  assert.ok(svg.includes('U+202E'))
  assert.match(cardMarkdown(turn, 'title'), /1 step, each once/)
})
