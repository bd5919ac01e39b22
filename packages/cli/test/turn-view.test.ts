import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { changedText, type Changes } from '../src/render/changed-text.ts'
import { TurnView } from '../src/render/turn-view.ts'
import { withoutControls } from '../src/text/printable.ts'
import { anEvent, AT } from './samples.ts'

const words = (view: TurnView, fields: Parameters<typeof anEvent>[0]): string =>
  view
    .show(anEvent(fields))
    .map(({ kind, text }) => text + (kind === 'line' ? '\n' : ''))
    .join('')
const fault = new Fault('model_stream_interrupted', { errorRaw: 'read ECONNRESET' }).report

test('deltas of one part continue the line, and a new part starts a new line', () => {
  const view = new TurnView()
  const shown = [
    words(view, { type: 'reasoning-delta', step: 1, attempt: 1, part: 'p1', text: 'think ' }),
    words(view, { type: 'reasoning-delta', step: 1, attempt: 1, part: 'p1', text: 'more' }),
    words(view, { type: 'text-delta', step: 1, attempt: 1, part: 'p2', text: 'say' }),
    words(view, { type: 'turn-end', text: 'say', steps: 1, faultsSurvived: 0 }),
  ].join('')
  assert.equal(shown, 'think more\nsay\n')
})

test('discarded text is marked as discarded before the next attempt is shown', () => {
  const view = new TurnView()
  words(view, { type: 'text-delta', step: 1, attempt: 1, part: 'p1', text: 'half' })
  assert.match(
    words(view, { type: 'part-discarded', step: 1, attempt: 1, part: 'p1', because: fault }),
    /^\n.*was discarded/,
  )
})

test('where text cannot be taken back, it is shown once it is final, and discarded text never', () => {
  const view = new TurnView({ holdsText: true })
  const said = (attempt: number, part: string, text: string): string =>
    words(view, { type: 'text-delta', step: 1, attempt, part, text })
  const discarded = (attempt: number, part: string): string =>
    words(view, { type: 'part-discarded', step: 1, attempt, part, because: fault })
  assert.equal(said(1, 'p1', 'It is ') + said(1, 'p2', 'half') + discarded(1, 'p2'), '')
  assert.equal(said(2, 'p3', 'done') + said(2, 'p3', '.'), '')
  assert.equal(words(view, { type: 'turn-end', text: 'It is done.', steps: 1, faultsSurvived: 1 }), 'It is done.\n')
})

test('held text comes before the calls of its answer, and a cancelled turn shows what it had', () => {
  const view = new TurnView({ holdsText: true })
  words(view, { type: 'text-delta', step: 1, attempt: 1, part: 'p1', text: 'Look:' })
  const call = { type: 'tool-call', step: 1, callId: 'c1', tool: 'bash', arguments: { command: 'ls' }, execId: 'e1' }
  assert.equal(words(view, call), 'Look:\n● bash ls\n')
  words(view, { type: 'text-delta', step: 2, attempt: 1, part: 'p1', text: 'It' })
  assert.match(words(view, { type: 'turn-error', ...new Fault('cancelled').report }), /^It\n/)
})

test('an answer with several discarded parts is marked once, and the next one again', () => {
  const view = new TurnView()
  const discarded = (attempt: number, part: string): string =>
    words(view, { type: 'part-discarded', step: 1, attempt, part, because: fault })
  assert.match(discarded(1, 'p1'), /discarded/)
  assert.equal(discarded(1, 'p2'), '')
  assert.match(discarded(2, 'p3'), /discarded/)
})

test('a survived park is listed by the fault that the turn waited for', () => {
  const view = new TurnView()
  const away = new Fault('model_unreachable', { errorRaw: 'connect ECONNREFUSED' }).report
  words(view, { type: 'parked', fault: away, resumeAt: null })
  words(view, { type: 'resumed', because: 'person' })
  words(view, { type: 'step-start', step: 2 })
  assert.deepEqual(view.survived, [
    { category: 'model_unreachable', what: 'connect ECONNREFUSED', how: 'parked, resumed by you' },
  ])
})

test('a retry line names the fault, the action, the wait and the attempt, and the summary lists it', () => {
  const view = new TurnView()
  const shown = words(view, {
    type: 'retry',
    step: 1,
    attempt: 1,
    fault,
    action: 'retry',
    delayMs: 420,
    nextAt: AT,
    max: 6,
  })
  assert.equal(shown, '⚡ model_stream_interrupted: read ECONNRESET → retrying in 420 ms (1/6)\n')
  assert.deepEqual(view.survived, [])
  words(view, { type: 'step-start', step: 2 })
  assert.deepEqual(view.survived, [{ category: 'model_stream_interrupted', what: 'read ECONNRESET', how: 'retried' }])
})

test('if the model learns that its call was cut off, the line says so, and counts no attempt of the same request', () => {
  const view = new TurnView()
  const told = { tool: 'write', text: 'Your call was cut off.' }
  const retry = {
    type: 'retry',
    step: 1,
    attempt: 1,
    fault,
    action: 'retry',
    delayMs: 0,
    nextAt: AT,
    max: 6,
    told,
  } as const
  const shown = words(view, retry)
  assert.equal(shown, '⚡ model_stream_interrupted: read ECONNRESET → telling the model to work in smaller parts\n')
})

const EXIT_7 = {
  cause: 'exited',
  started: true,
  code: 7,
  signal: null,
  signalGuess: null,
  durationMs: 1,
  survivors: [],
  stdoutBytes: 0,
  stderrBytes: 0,
  truncated: false,
  diagnostics: [],
}
const bash = { type: 'tool-call', step: 1, callId: 'c', tool: 'bash', arguments: { command: 'seq' }, execId: 'e' }
const output = (text: string): Parameters<typeof anEvent>[0] => ({
  type: 'tool-output',
  callId: 'c',
  stream: 'stdout',
  text,
})

test('a long output shows its first and last lines, and how many were omitted', () => {
  const numbers = Array.from({ length: 100 }, (_, i) => `${i}\n`)
  for (const chunks of [[numbers.join('')], numbers]) {
    const view = new TurnView()
    words(view, bash)
    const live = chunks.map((text) => words(view, output(text))).join('')
    assert.equal(live.trim().split('\n').length, 13)
    assert.match(live, /│ 11\n {2}│ … more output; the last lines follow when it ends\n$/)
    const end = words(view, { type: 'tool-result', callId: 'c', outcome: 'failed', text: '', exit: EXIT_7 })
    assert.match(
      end,
      /^ {2}│ … 76 lines omitted; all of it: breakfall output e\n {2}│ 88\n[^]* {2}│ 99\n {2}└ exit 7\n$/,
    )
  }
})

test('if the journal left out the middle of an output, the lines that it has are not counted as all of them', () => {
  const view = new TurnView()
  words(view, bash)
  words(view, output('1\n'.repeat(100)))
  words(view, output('\n[… 2656127 bytes left out here; the runner keeps all of it …]\n'))
  words(view, output('9\n'.repeat(100)))
  const end = words(view, { type: 'tool-result', callId: 'c', outcome: 'failed', text: '', exit: EXIT_7 })
  assert.match(end, /^ {2}│ … more than 178 lines omitted; all of it: breakfall output e\n {2}│ 9\n/)
})

test('a command that failed says why, and what helps, in the line with its exit code', () => {
  const oom = {
    id: 'oom_killed',
    rank: 'cause',
    message: 'the box ran out of memory',
    advice: 'raise limits.memoryMb',
    retry: 'never',
    evidence: [],
    count: 1,
  }
  const ended = (exit: object, text = ''): string =>
    words(new TurnView(), { type: 'tool-result', callId: 'c', outcome: 'failed', text, exit: { ...EXIT_7, ...exit } })
  const flag = 'in a new session: --memory-mb NUMBER'
  assert.equal(
    ended({ code: 137, cause: 'oom_killed', diagnostics: [oom] }),
    `  └ exit 137: the box ran out of memory; raise limits.memoryMb; ${flag}\n`,
  )
  assert.equal(
    ended({ code: 1, diagnostics: [{ ...oom, id: 'oom_killed_child', rank: 'hint' }] }),
    `  └ exit 1: the box ran out of memory; raise limits.memoryMb; ${flag}\n`,
  )
  const refused = { ...oom, id: 'spawn_refused', message: 'cannot start a process: EAGAIN', advice: 'check the limits' }
  assert.equal(
    ended({ code: null, cause: 'spawn_failed', diagnostics: [refused] }, 'no start: cannot start a process: EAGAIN'),
    '  └ no start: cannot start a process: EAGAIN: check the limits\n',
  )
  const other = { ...oom, id: 'guard_lost', rank: 'hint' }
  assert.equal(ended({ diagnostics: [other] }), '  └ exit 7\n')
})

test('an output that just fits is shown once, without a note about omitted lines', () => {
  const view = new TurnView()
  words(view, bash)
  const twelve = Array.from({ length: 12 }, (_, i) => `${i}\n`).join('')
  assert.equal(words(view, output(twelve)).trim().split('\n').length, 12)
  assert.equal(words(view, { type: 'tool-result', callId: 'c', outcome: 'ok', text: '' }), '')
})

test('a note that one line is omitted never takes the place of that line', () => {
  const view = new TurnView()
  words(view, bash)
  words(view, output(Array.from({ length: 25 }, (_, i) => `${i}\n`).join('')))
  const end = words(view, { type: 'tool-result', callId: 'c', outcome: 'ok', text: '' })
  assert.deepEqual(
    end
      .trim()
      .split('\n')
      .map((line) => line.replace('│', '').trim()),
    Array.from({ length: 13 }, (_, i) => String(i + 12)),
  )
})

test('it is said once that it is unknown whether a command ran', () => {
  const text = 'It is unknown whether this ran: the runner is gone. It may have had all of its effects.'
  assert.equal(
    words(new TurnView(), { type: 'tool-result', callId: 'c', outcome: 'unknown', text }),
    '  └ unknown whether this ran: the runner is gone. It may have had all of its effects.\n',
  )
})

test('a failure whose raw error equals its sentence is printed once', () => {
  const { report } = new Fault('deadline_exceeded', { error: 'the time is over', errorRaw: 'the time is over' })
  assert.equal(words(new TurnView(), { type: 'turn-error', ...report }), '✗ the time is over\n  deadline_exceeded\n')
})

test('what changed is said by its name, or that it is not known', () => {
  const changed = (files: readonly string[], isUnknown: boolean, more: Partial<Changes> = {}): string =>
    changedText({ files, isUnknown, tools: ['bash', 'mcp__a__b'], ...more })
  assert.equal(changed(['a.ts'], false), 'a.ts')
  assert.match(changed(['a.ts'], true), /^a\.ts; more is unknown: commands ran, and no checkpoint/)
  assert.match(changed([], true), /^files: unknown; commands ran/)
  assert.match(changed([], true, { tools: ['mcp__a__b'] }), /^files: unknown; tools outside the box were called/)
  assert.match(changed([], true, { isEnded: false }), /^files: unknown; what tools change is known when the turn ends$/)
  const many = Array.from({ length: 100 }, (_, index) => `${index}`)
  assert.match(changed(many, false), /^0, 1, .*, 19 and at least 80 more files$/)
})

test('a question to a person is not a fault that the turn survived', () => {
  const view = new TurnView()
  const parked = { type: 'parked', fault: new Fault('approval_needed').report, resumeAt: null }
  words(view, { ...parked, because: 'approval_needed' })
  words(view, { type: 'resumed', because: 'person' })
  words(view, { type: 'step-start', step: 2 })
  assert.deepEqual(view.survived, [])
})

test('escape sequences in output cannot move the cursor, rename the window or hide text', () => {
  assert.equal(withoutControls('rm \u202etxt.exe\u2069 \u{e0041}'), 'rm ⟦U+202E⟧txt.exe⟦U+2069⟧ ⟦U+E0041⟧')
  assert.equal(withoutControls('a\x1b[2J\x1b]0;evil\x07b\x1b[31mc\x08\x9bd\r\ne\tf'), 'abcd\ne\tf')
})

test('a cancel is one line', () => {
  const { report } = new Fault('cancelled', { error: 'cancelled by request (why)', errorRaw: 'cancelled by user: why' })
  assert.equal(words(new TurnView(), { type: 'turn-error', ...report }), 'cancelled by request (why)\n')
})

test('a compaction is one line with what became shorter and by how much', () => {
  const sizes = { fromStep: 1, toStep: 8, requestBytesBefore: 341_020, requestBytesAfter: 152_377 }
  const line = words(new TurnView(), { type: 'compacted', step: 9, droppedResults: 8, summaryBytes: 900, ...sizes })
  const what = '8 old tool results became notes, the oldest steps became a summary'
  assert.equal(line, `⇣ shortened the conversation: ${what} (341 kB → 152 kB)\n`)
})

test('a name that the box may not reach is shown with the flag that allows it', () => {
  const told = (allowed: readonly string[] | undefined, message: string, evidence: readonly string[]): string => {
    const diagnostic = {
      id: 'network_denied',
      rank: 'hint',
      message,
      advice: 'ask',
      retry: 'never',
      evidence,
      count: 1,
    }
    const ended = { cause: 'exited', started: true, code: 0, signal: null, signalGuess: null, durationMs: 1 }
    const printed = { survivors: [], stdoutBytes: 0, stderrBytes: 0, truncated: false }
    const exit = { ...ended, ...printed, diagnostics: [diagnostic] }
    return words(new TurnView({ allowed }), { type: 'tool-result', callId: 'c', outcome: 'ok', text: '', exit })
  }
  const only = 'this box may reach only npm; example.com was refused'
  assert.equal(
    told(['preset:npm'], only, ['example.com', 'example.com:443']),
    `  └ ${only}; to allow it in a new session: --network npm,example.com\n`,
  )
  assert.match(told(undefined, only, ['example.com:22']), /--network NAMES,example\.com:22\n$/)
  assert.equal(told([], 'x, because it has no address', ['example.com']), '  └ x, because it has no address\n')
  assert.equal(told([], 'x', ['192.0.2.1:443']), '  └ x\n')
})

test('a line of output that comes in pieces is one line, and ends with its call or its stream', () => {
  const view = new TurnView()
  const output = (text: string, stream = 'stdout'): string =>
    words(view, { type: 'tool-output', callId: 'c', stream, text, execSeq: 1 })
  words(view, { type: 'tool-call', step: 1, callId: 'c', tool: 'bash', arguments: { command: 'x' }, execId: 'e' })
  assert.equal(output('ab'), '')
  assert.equal(output('cd\n\nef'), '  │ abcd\n  │ \n')
  assert.equal(output('oh\n', 'stderr'), '  │ ef\n  │ oh\n')
  assert.equal(output('g'), '')
  assert.equal(words(view, { type: 'tool-result', callId: 'c', outcome: 'failed', text: 'no' }), '  │ g\n  └ no\n')
})

test('a turn that continues names the daemon that took it over, if there is more than one', () => {
  const view = new TurnView()
  assert.match(words(view, { type: 'taken-over', epoch: 2 }), /the daemon restarted; the turn continues/)
  assert.match(
    words(view, { type: 'taken-over', epoch: 3, daemon: 'daemon-3' }),
    /↻ daemon-3 took over; the turn continues/,
  )
})
