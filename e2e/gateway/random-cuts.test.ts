/**
 * Answers of random shape, cut at random bytes and repeated in other chunks or with other text: the client always gets one of
 * the answers or a reported failure. Seeded; a failure names its seed.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  blockDelta,
  blockStart,
  blockStop,
  messageDelta,
  messageStartWith,
  messageStop,
  ping,
} from '../../test/kit/anthropic-frames.ts'
import { type Json } from '../../test/kit/json.ts'
import { choice, done, finish, roleWith, text, usage } from '../../test/kit/openai-frames.ts'
import { bytes, chunk, fin, head, type Play, reset } from '../../test/kit/plays.ts'
import { assembledChat, assembledMessage } from './assembled.ts'
import { isCutOff, type Reply, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const SEED = 20261116
const CASES = 200

type Dice = () => number
type Call = { readonly id: string; readonly name: string; readonly arguments: string }
type Answer = {
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly Call[]
  readonly finish: string | null
}

for (const hold of ['auto', 'tools', 'answer', 'none'] as const)
  describe(`--hold ${hold}`, LIMIT, () => {
    test(`${CASES} answers, each requested up to four times`, async () => {
      await using rig = await Rig.start('--attempts-max', '4', '--hold', hold)
      let whole = 0
      for (let from = 0; from < CASES; from += 50)
        whole += (await Promise.all(Array.from({ length: 50 }, (_, at) => one(rig, hold, SEED + from + at)))).filter(
          Boolean,
        ).length
      assert.ok(hold === 'answer' ? whole === CASES : whole > CASES / 3, `seed ${SEED}: ${whole} of ${CASES} whole`)
    })
  })

/** True if the client got a whole answer. */
async function one(rig: Rig, hold: string, seed: number): Promise<boolean> {
  const roll = diceOf(seed)
  const isChat = roll() < 0.5
  const base = randomAnswer(roll)
  const answers = Array.from({ length: 4 }, () =>
    roll() < 0.75 ? base : roll() < 0.5 ? randomAnswer(roll) : { ...base, text: `${base.text}…` },
  )
  const plays = answers.map((made, at) =>
    sent(roll, isChat ? chatFrames(roll, made, at) : messageFrames(roll, made, at), at < 3 && roll() < 0.7),
  )
  const reply = isChat ? await rig.chat(plays) : await rig.messages(plays)
  const said = `seed ${seed}: ${JSON.stringify(answers)}\n${reply.text}`
  assert.ok(reply.whole || isCutOff(reply), said)
  const got = isChat ? chatOf(reply, said) : messageOf(reply, said)
  const isTold = reply.status !== 200 || !reply.whole
  if (!isTold) {
    assert.ok(
      answers.some((made) => JSON.stringify(made) === JSON.stringify(got)),
      said,
    )
    return true
  }
  assert.ok(
    answers.some((made) => made.reasoning.startsWith(got.reasoning) && made.text.startsWith(got.text)),
    said,
  )
  assert.equal(got.finish, null, said)
  if (hold !== 'none') assert.deepEqual(got.calls, [], said)
  return false
}

// ---- making answers ----

function diceOf(seed: number): Dice {
  let state = Math.imul(seed, 2_654_435_761) >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state >>> 8) / 2 ** 24
  }
}

const WORDS = ['ab', 'ç', '😀', ' ', '\\"', 'x\n', 'zzz', '"', 'data:', '\u2028']

function randomAnswer(roll: Dice): Answer {
  const words = (most: number): string =>
    Array.from({ length: Math.floor(roll() * most) }, () => WORDS[Math.floor(roll() * WORDS.length)]).join('')
  const calls = Array.from({ length: Math.max(0, Math.floor(roll() * 5) - 2) }, (_, at) => ({
    id: `c${at}`,
    name: `f${at}`,
    arguments: JSON.stringify({ key: words(6) }),
  }))
  const reasoning = roll() < 0.4 ? words(6) : ''
  return { reasoning, text: words(10) || 'T', calls, finish: calls.length > 0 ? 'tool_calls' : 'stop' }
}

function split(roll: Dice, whole: string): string[] {
  const pieces: string[] = ['']
  for (const character of whole) {
    pieces.push((pieces.pop() ?? '') + character)
    if (roll() < 0.4) pieces.push('')
  }
  return pieces.filter((piece) => piece !== '')
}

function chatFrames(roll: Dice, made: Answer, attempt: number): string {
  const top = { id: `chatcmpl-${attempt}`, model: `m${attempt}` }
  const calls = made.calls.flatMap(({ id, name, arguments: json }, index) => [
    choice({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }, {}, top),
    ...split(roll, json).map((piece) => choice({ tool_calls: [{ index, function: { arguments: piece } }] }, {}, top)),
  ])
  return [
    roleWith(top),
    ...split(roll, made.reasoning).map((piece) => choice({ reasoning_content: piece }, {}, top)),
    ...split(roll, made.text).map((piece) => text(piece, top)),
    ...calls,
    finish(made.finish ?? '', top),
    roll() < 0.5 ? usage() : '',
    done,
  ].join('')
}

function messageFrames(roll: Dice, made: Answer, attempt: number): string {
  const blocks: ((index: number) => string[])[] = []
  if (made.reasoning !== '')
    blocks.push((index) => [
      blockStart(index, { type: 'thinking', thinking: '', signature: '' }),
      ...split(roll, made.reasoning).map((thinking) => blockDelta(index, { type: 'thinking_delta', thinking })),
      blockDelta(index, { type: 'signature_delta', signature: `s${attempt}` }),
    ])
  blocks.push((index) => [
    blockStart(index, { type: 'text', text: '' }),
    ...split(roll, made.text).map((piece) => blockDelta(index, { type: 'text_delta', text: piece })),
    ping,
  ])
  for (const { id, name, arguments: json } of made.calls)
    blocks.push((index) => [
      blockStart(index, { type: 'tool_use', id, name, input: {} }),
      ...split(roll, json).map((partial_json) => blockDelta(index, { type: 'input_json_delta', partial_json })),
    ])
  return [
    messageStartWith(`msg_${attempt}`, `m${attempt}`),
    ...blocks.flatMap((block, index) => [...block(index), blockStop(index)]),
    messageDelta(made.finish === 'stop' ? 'end_turn' : 'tool_use'),
    messageStop,
  ].join('')
}

/** The bytes in random chunks, perhaps cut at a random byte in one of three ways. */
function sent(roll: Dice, frames: string, isCut: boolean): Play {
  const whole = Buffer.from(frames)
  const end = isCut ? Math.floor(roll() * whole.length) : whole.length
  const pieces: Buffer[] = []
  for (let at = 0; at < end;) {
    const length = Math.min(end - at, 1 + Math.floor(roll() * 400))
    pieces.push(chunk(whole.subarray(at, at + length)))
    at += length
  }
  const last = bytes('0\r\n\r\n')
  const ending = isCut ? ([reset, fin, last][Math.floor(roll() * 3)] as Play) : last
  return [head(), bytes(...pieces), ending]
}

// ---- reading them ----

function chatOf(reply: Reply, said: string): Answer {
  const held = assembledChat(reply.frames)
  assert.ok(held.roles <= 1, said)
  if (reply.status === 200 && reply.whole) assert.equal(reply.frames.at(-1)?.data, '[DONE]', said)
  const ids = reply.frames.flatMap(({ json }) => (json?.choices?.length > 0 ? [json.id, json.model].join() : []))
  assert.ok(new Set(ids).size <= 1, said)
  return { reasoning: held.reasoning, text: held.content, calls: held.calls, finish: held.finish }
}

function messageOf(reply: Reply, said: string): Answer {
  const blocks = assembledMessage(reply.frames)
  let open = -1
  let next = 0
  for (const { json } of reply.frames) {
    if (json?.type === 'content_block_start') {
      assert.deepEqual([open, json.index], [-1, next], said)
      open = next++
    }
    if (json?.type === 'content_block_delta') assert.equal(json.index, open, said)
    if (json?.type !== 'content_block_stop') continue
    assert.equal(json.index, open, said)
    open = -1
  }
  const count = (type: string): number =>
    reply.frames.filter(({ json }) => (json?.delta?.type ?? json?.type) === type).length
  assert.equal(count('message_start'), reply.status === 200 ? 1 : 0, said)
  assert.ok(count('signature_delta') <= 1, said)
  const one = (type: string, key: string): string => {
    const of = blocks.filter((block) => block.type === type)
    assert.ok(of.length <= 1, said)
    return of[0]?.[key] ?? ''
  }
  const reason = reply.frames.find(({ json }) => json?.type === 'message_delta')?.json.delta.stop_reason
  return {
    reasoning: one('thinking', 'thinking'),
    text: one('text', 'text'),
    calls: blocks
      .filter((block) => block.type === 'tool_use')
      .map(({ id, name, json }: Json) => ({ id, name, arguments: json })),
    finish: reason === undefined ? null : reason === 'end_turn' ? 'stop' : 'tool_calls',
  }
}
