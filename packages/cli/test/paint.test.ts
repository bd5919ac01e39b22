import assert from 'node:assert/strict'
import { test } from 'node:test'
import { paint } from '../src/render/paint.ts'
import type { Segment } from '../src/render/turn-view.ts'
import type { Output } from '../src/terminal/output.ts'
import { capturedOutput } from './samples.ts'

const terminal = (hasColours: boolean): { out: Output; shown: () => string } => {
  const { out, text } = capturedOutput({ hasColours })
  return { out, shown: text }
}

delete process.env['NO_COLOR'] // the tests do not depend on the settings of whoever runs them
delete process.env['FORCE_COLOR']

/** Moves the cursor, renames the window, asks the terminal to type, hides what follows, as an old and as a new control character. */
const HOSTILE = 'a\x1b[2J\x1b]0;owned\x07\x1b[6n\x1b[8mb\x9b2J\x9d0;owned\x9c\x1bPq\x1b\\\x08\r\x7fc'

const text = (tone: Segment['tone'], words: string): Segment => ({ kind: 'text', tone, text: words })

test('streamed text opens its style once, and closes it before anything else is written', () => {
  const { out, shown } = terminal(true)
  for (const words of ['I ', 'think ', 'so']) paint(out, [text('dim', words)])
  paint(out, [text('plain', '\nyes'), { kind: 'line', tone: 'good', text: '\ndone' }])
  assert.equal(shown(), '\x1b[2mI think so\x1b[22m\nyes\n\x1b[32mdone\x1b[39m\n')
})

test('a message starts on its own line and does not inherit the style of the streamed text that it interrupts', () => {
  const { out, shown } = terminal(true)
  paint(out, [text('dim', 'thinking')])
  out.say('cancelling')
  out.endStyle()
  assert.equal(shown(), '\x1b[2mthinking\x1b[22m\ncancelling\n')
})

test('without colours the output contains no escape sequence', () => {
  const { out, shown } = terminal(false)
  paint(out, [text('dim', 'a'), text('dim', 'b'), { kind: 'line', tone: 'bad', text: 'c' }])
  assert.equal(shown(), 'abc\n')
})

test('control sequences in foreign text never reach the terminal', () => {
  const { out, shown } = terminal(true)
  paint(out, [text('plain', HOSTILE), text('dim', HOSTILE), { kind: 'line', tone: 'bad', text: HOSTILE }])
  out.line(HOSTILE)
  out.line(out.style('green', HOSTILE))
  out.write(HOSTILE)
  out.say(out.styleErr('yellow', HOSTILE))
  out.data({ [HOSTILE]: HOSTILE })
  const left = ['2', '22', '31', '32', '33', '39'].reduce((rest, code) => rest.replaceAll(`\x1b[${code}m`, ''), shown())
  assert.equal(left.replaceAll(/[\n\t\x20-\x7e]/g, ''), '', JSON.stringify(left))
  for (const half of ['\x1b', ']0;owned\x07']) out.write(half)
  assert.equal(shown().includes('\x1b]'), false)
})

test('JSON keeps the text, escaped', () => {
  const { out, shown } = terminal(true)
  out.data({ text: HOSTILE })
  assert.deepEqual(JSON.parse(shown()), { text: HOSTILE })
})

test('only our own colours are kept', () => {
  const { out, shown } = terminal(true)
  out.line(out.style(['bold', 'cyan'], 'a') + out.style('dim', 'b\x1b[5mc'))
  assert.equal(shown(), '\x1b[1m\x1b[36ma\x1b[39m\x1b[22m\x1b[2mbc\x1b[22m\n')
})

test('with colours off, foreign colours are removed as well', () => {
  const { out, shown } = terminal(false)
  out.line('a\x1b[31mb')
  out.say('a\x1b[31mb')
  paint(out, [text('dim', 'a\x1b[31mb')])
  assert.equal(shown(), 'ab\nab\nab')
})
