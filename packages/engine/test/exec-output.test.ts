import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ExecEvent } from '@breakfall/wire'
import { ExecOutput } from '../src/tools/exec-output.ts'
import type { OutputChunk } from '../src/tools/output.ts'
import { Secrets } from '../src/secrets.ts'
import type { ExecPosition } from '../src/turn/state.ts'
import { diceOf } from '../../../test/kit/dice.ts'

const KEY = 'an-unusual-key-without-a-known-shape'
const STREAMS = ['stdout', 'stderr'] as const
const START: ExecPosition = { execSeq: 0, execOffsets: {} }

type Printed = Extract<ExecEvent, { type: OutputChunk['stream'] }>
type Told = OutputChunk & ExecPosition

const secrets = new Secrets()
secrets.set('the configuration', [KEY])

/** The runner's log of the chunks that a command prints. */
function logOf(pieces: readonly (readonly [OutputChunk['stream'], Buffer])[]): readonly Printed[] {
  const ends = { stdout: 0, stderr: 0 }
  return pieces.map(([type, bytes], index) => {
    const offset = ends[type]
    ends[type] += bytes.length
    const text = bytes.toString('utf8')
    const isText = Buffer.from(text).equals(bytes)
    const data = isText ? { data: text } : { dataBase64: bytes.toString('base64') }
    return { seq: index + 2, type, offset, ...data } // the first event says that it started
  })
}

/** Follows a log from a position, and journals what may be shown together with the position reached. */
function follow(log: readonly Printed[], from: ExecPosition, isWhole = true): readonly Told[] {
  const output = new ExecOutput(secrets, from)
  const told: Told[] = []
  const journal = (piece: OutputChunk): void =>
    void (piece.text === '' || told.push({ ...piece, ...output.position() }))
  for (const event of log) if (event.seq > from.execSeq) journal(output.take(event))
  if (isWhole) for (const piece of output.rest()) journal(piece)
  return told
}

const textOf = (told: readonly Told[], stream: OutputChunk['stream']): string =>
  told.flatMap((piece) => (piece.stream === stream ? [piece.text] : [])).join('')

test('a process that continues at the position of any event shows exactly the rest, however often that happens', (t) => {
  const seed = Number(process.env['SEED'] ?? 20_261_116)
  t.diagnostic(`SEED=${seed}`)
  const dice = diceOf(seed)
  const upTo = (max: number): number => Math.floor(dice() * (max + 1))
  const words = [KEY, KEY.slice(0, 9), 'ä', '€ and a', '\n', 'plain ', 'an-']
  for (let round = 0; round < 150; round += 1) {
    const said = STREAMS.map((stream) => {
      const bytes = Buffer.from(Array.from({ length: 8 }, () => words[upTo(words.length - 1)]).join(''))
      if (dice() < 0.3) bytes[upTo(bytes.length - 1)] = 0xff // not UTF-8 any more, and perhaps not a key
      return { stream, bytes, at: 0 }
    })
    const pieces: [OutputChunk['stream'], Buffer][] = []
    for (let open = [...said]; open.length > 0; open = open.filter(({ at, bytes }) => at < bytes.length)) {
      const one = open[upTo(open.length - 1)] as (typeof said)[number]
      let end = one.at + 1 + upTo(12)
      while (((one.bytes[end] ?? 0) & 0xc0) === 0x80) end += 1 // a runner does not cut within a character
      pieces.push([one.stream, one.bytes.subarray(one.at, end)])
      one.at = end
    }
    const log = logOf(pieces)
    const whole = follow(log, START)
    for (const { stream } of said) {
      const printed = log.flatMap((event) => (event.type === stream ? [event] : []))
      const raw = printed.map(({ data, dataBase64 = '' }) => data ?? Buffer.from(dataBase64, 'base64').toString())
      assert.equal(textOf(whole, stream), secrets.scrub(raw.join('')), `seed ${seed}, round ${round}`)
    }
    // Each process but the last is killed after some of its events are journalled.
    let journal: readonly Told[] = []
    for (let life = 0; life < 6; life += 1) {
      const more = follow(log, journal.at(-1) ?? START, life === 5)
      journal = [...journal, ...(life === 5 ? more : more.slice(0, upTo(3)))]
    }
    for (const { stream } of said)
      assert.equal(textOf(journal, stream), textOf(whole, stream), `seed ${seed}, round ${round}`)
  }
})

test('text held back on one stream does not delay the other, and is read again', () => {
  const log = logOf([
    ['stdout', Buffer.from('key=an-unusual')],
    ['stderr', Buffer.from('warned')],
  ])
  assert.deepEqual(follow(log, START, false), [
    { stream: 'stdout', text: 'key=', execSeq: 1, execOffsets: { stdout: 4 } },
    { stream: 'stderr', text: 'warned', execSeq: 1, execOffsets: { stdout: 4, stderr: 6 } },
  ])
})

test('output that the runner has dropped is reported once, by its unseen bytes, and releases held text', () => {
  const output = new ExecOutput(secrets, { execSeq: 1, execOffsets: { stdout: 4 } })
  output.take({ seq: 2, type: 'stdout', offset: 0, data: 'key=an-' })
  const lost = { seq: 9, type: 'gap', stream: 'stdout', from: 5, to: 90 } as const
  assert.deepEqual(output.skip(lost), {
    stream: 'stdout',
    text: 'an-\n[… bytes 7 to 90 of stdout are no longer kept …]\n',
  })
  assert.deepEqual(output.position(), { execSeq: 9, execOffsets: { stdout: 90 } })
  assert.deepEqual(output.skip(lost), { stream: 'stdout', text: '' })
})
