/** Many events in one read of the socket: they go through as one piece, and the client cannot tell. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { messageFrames, textFrames } from '../../../test/kit/anthropic-frames.ts'
import { answerFrames } from '../../../test/kit/openai-frames.ts'
import { cut, stream } from '../../../test/kit/plays.ts'
import { messageItem, reasoningItem, responseFrames, unnumbered } from '../../../test/kit/responses-frames.ts'
import { type ApiName, HOLDS } from '../src/index.ts'
import { relayed } from './relayed.ts'

/** Plain words; two of them need a parser: an escape, and a letter outside ASCII. */
const WORDS = Array.from({ length: 60 }, (_, index) =>
  index === 20 ? '"\n\\' : index === 40 ? ' grüße🥋' : ` w${index}`,
)
const TEXT = WORDS.join('')

const ANSWERS: Readonly<Record<ApiName, readonly string[]>> = {
  'openai-chat': answerFrames(...WORDS),
  'anthropic-messages': messageFrames(textFrames(0, ...WORDS)),
  'openai-responses': responseFrames([reasoningItem(WORDS), messageItem(WORDS)]),
}

for (const api of Object.keys(ANSWERS) as ApiName[])
  for (const hold of HOLDS) {
    const frames = ANSWERS[api]
    const all = frames.join('')

    test(`${api}, hold ${hold}: an answer in one read is forwarded byte for byte`, async () => {
      const got = await relayed([stream(all)], { api, hold })
      assert.equal(got.text, TEXT)
      assert.equal(
        got.body,
        all.replaceAll('event: ping\ndata: {"type":"ping"}\n\n', (ping) => ping),
      )
    })

    test(`${api}, hold ${hold}: an answer that broke off inside a read is healed, with the text once`, async () => {
      const cutOff = all.slice(0, all.indexOf(' w50'))
      const got = await relayed([cut(cutOff), stream(all)], { api, hold })
      assert.equal(got.text, TEXT)
      assert.equal(got.error, undefined)
      if (api === 'openai-responses')
        assert.deepEqual(
          got.frames.map(({ json }) => json.sequence_number),
          [...got.frames.keys()],
        )
    })
  }

for (const api of Object.keys(ANSWERS) as ApiName[])
  test(`${api}: events of 40,000 characters around a word each are forwarded byte for byte`, async () => {
    const padding = `,"padding":"${'y'.repeat(40_000)}"}\n\n`
    const all = ANSWERS[api].map((frame) => (frame.includes(' w') ? frame.replace(/}\n\n$/, padding) : frame)).join('')
    const got = await relayed([stream(all)], { api })
    assert.equal(got.text, TEXT)
    assert.equal(got.body, all)
    assert.equal(got.outcome.ledger.length, 1)
  })

test('events with other numbers, or none, are numbered on', async () => {
  const frames = ANSWERS['openai-responses']
  const later = frames.map((frame) =>
    frame.replace(/"sequence_number":(\d+)/, (_, number: string) => `"sequence_number":${Number(number) + 7}`),
  )
  for (const odd of [later, unnumbered(frames), frames.map((frame) => frame.replace(/^event: .*\n/, ''))]) {
    const got = await relayed([stream(odd.join(''))], { api: 'openai-responses' })
    assert.equal(got.text, TEXT)
    assert.deepEqual(
      got.frames.map(({ json }) => json.sequence_number),
      [...got.frames.keys()],
    )
    assert.deepEqual(
      got.frames.map(({ event }) => event),
      got.frames.map(({ json }) => json.type),
    )
    assert.equal(got.frames.at(-1)?.json.response.status, 'completed')
  }
})
