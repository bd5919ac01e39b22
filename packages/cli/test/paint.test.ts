import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { Output } from '../src/render/output.ts'
import { paint } from '../src/render/paint.ts'
import type { Piece } from '../src/render/turn-view.ts'

/** Both streams are one terminal, as for a person; colours are on or off as told. */
function terminal(hasColours: boolean): { out: Output; shown: () => string } {
  const stream = Object.assign(new PassThrough(), {
    isTTY: hasColours,
    getColorDepth: () => (hasColours ? 8 : 1),
    hasColors: () => hasColours,
  }) as unknown as NodeJS.WriteStream
  let text = ''
  stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
  return { out: new Output({ json: false, stdout: stream, stderr: stream }), shown: () => text }
}

delete process.env['NO_COLOR'] // what the person who runs the tests likes is no part of them
delete process.env['FORCE_COLOR']

/** Moves the cursor, renames the window, asks the terminal to type, hides what follows, as an old and as a new control character. */
const HOSTILE = 'a\x1b[2J\x1b]0;owned\x07\x1b[6n\x1b[8mb\x9b2J\x9d0;owned\x9c\x1bPq\x1b\\\x08\r\x7fc'

const text = (tone: Piece['tone'], words: string): Piece => ({ kind: 'text', tone, text: words })

test('text that comes in pieces opens its style once and closes it once, before anything else', () => {
  const { out, shown } = terminal(true)
  for (const words of ['I ', 'think ', 'so']) paint(out, [text('dim', words)])
  paint(out, [text('plain', '\nyes'), { kind: 'line', tone: 'good', text: '\ndone' }])
  assert.equal(shown(), '\x1b[2mI think so\x1b[22m\nyes\n\x1b[32mdone\x1b[39m\n')
})

test('talk on the same terminal does not inherit the style of the text that it interrupts', () => {
  const { out, shown } = terminal(true)
  paint(out, [text('dim', 'thinking')])
  out.say('cancelling')
  out.rest()
  assert.equal(shown(), '\x1b[2mthinking\x1b[22mcancelling\n')
})

test('without colours there is not one escape sequence', () => {
  const { out, shown } = terminal(false)
  paint(out, [text('dim', 'a'), text('dim', 'b'), { kind: 'line', tone: 'bad', text: 'c' }])
  assert.equal(shown(), 'abc\n')
})

test('nothing that somebody else wrote reaches a terminal as a command to it', () => {
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

test('JSON still says what it was given', () => {
  const { out, shown } = terminal(true)
  out.data({ text: HOSTILE })
  assert.deepEqual(JSON.parse(shown()), { text: HOSTILE })
})

test('our own colours are left, and only they', () => {
  const { out, shown } = terminal(true)
  out.line(out.style(['bold', 'cyan'], 'a') + out.style('dim', 'b\x1b[5mc'))
  assert.equal(shown(), '\x1b[1m\x1b[36ma\x1b[39m\x1b[22m\x1b[2mbc\x1b[22m\n')
})

test('where colours are off nobody else brings them in', () => {
  const { out, shown } = terminal(false)
  out.line('a\x1b[31mb')
  out.say('a\x1b[31mb')
  paint(out, [text('dim', 'a\x1b[31mb')])
  assert.equal(shown(), 'ab\nab\nab')
})
