/** Behaviour that takes time: the head after 15 s, pings, stopping a gateway with open streams. All tests run in parallel and take 15 s together. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shared } from '../shared.ts'
import { messageFrames, messageStartWith, textFrames } from '../../test/kit/anthropic-frames.ts'
import { done, finish, role, text, answerFrames } from '../../test/kit/openai-frames.ts'
import { bytes, head, json, type Play, reset, silence, stream } from '../../test/kit/plays.ts'
import { assembledChat, assembledMessage } from './assembled.ts'
import { chatBody, read, Reading, Rig } from './rig.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const [rig, whole] = await Promise.all([
  shared(Rig.start('--attempts-max', '2')),
  shared(Rig.start('--attempts-max', '2', '--hold', 'answer')),
])

/** Waits for the head of the answer, which comes before any content, then continues. */
function slowly(...plays: readonly Play[]): { play: Play; go: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { play: [...plays.slice(0, -1), () => promise, plays.at(-1) as Play], go: resolve }
}

describe('nothing for 15 s', { ...LIMIT, concurrency: true }, () => {
  test('then a 200, and the answer when it arrives', async () => {
    const { play, go } = slowly(stream(...answerFrames('late')))
    const name = rig.upstream.plays(play)
    const started = performance.now()
    const response = await rig.gateway.open('/v1/chat/completions', { body: chatBody(name) })
    const waited = performance.now() - started
    assert.ok(waited > 14_000, `${waited} ms`)
    assert.equal(response.statusCode, 200)
    assert.match(String(response.headers['content-type']), /^text\/event-stream/)
    assert.ok(response.headers['x-breakfall-request-id'])
    go()
    const reply = await read(response)
    assert.equal(assembledChat(reply.frames).content, 'late')
    assert.equal(assembledChat(reply.frames).roles, 1)
  })
  test('then failures appear inside the stream, and retries as comments', async () => {
    const { play, go } = slowly(head(), [role], reset)
    const name = rig.upstream.plays(play, json(503, 'busy'))
    const response = await rig.gateway.open('/v1/chat/completions', { body: chatBody(name) })
    assert.equal(response.statusCode, 200)
    go()
    const reply = await read(response)
    assert.match(
      reply.comments.find((line) => line.includes('retry')) ?? '',
      /^: breakfall retry 2\/2 model_stream_interrupted in \d+ ms$/,
    )
    assert.match(reply.frames.at(-2)?.json.error.code, /^model_/)
    assert.equal(reply.frames.at(-1)?.data, '[DONE]')
    assert.equal(reply.whole, true)
  })
  test("messages: the API's own pings, then its error event", async () => {
    const { play, go } = slowly(head(), [messageStartWith('msg_0')], reset)
    const name = rig.upstream.plays(play, json(529, {}))
    const pending = rig.gateway.open('/v1/messages', {
      body: { model: name, stream: true, max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
    })
    const response = await pending
    assert.equal(response.statusCode, 200)
    go()
    const reply = await read(response)
    assert.equal(reply.frames.at(-1)?.event, 'error')
    assert.equal(
      reply.frames.some(({ json }) => json.type === 'message_stop'),
      false,
    )
  })
  test('--hold answer: pings while it is held, then all of it', async () => {
    const { play, go } = slowly(head(), [role, text('held ')], [[text('back'), finish(), done], bytes('0\r\n\r\n')])
    const name = whole.upstream.plays(play)
    const reading = new Reading(await whole.gateway.open('/v1/chat/completions', { body: chatBody(name) }))
    const first = await reading.until((got) => got.includes('\n'))
    assert.match(first, /^:/)
    assert.equal(first.includes('held'), false)
    go()
    const got = await reading.until((all) => all.includes('[DONE]'))
    assert.ok(got.includes('held '))
  })
  test('--hold answer, messages: pings, then all of it', async () => {
    const frames = messageFrames(textFrames(0, 'held'))
    const { play, go } = slowly(head(), frames.slice(0, 4), [frames.slice(4), bytes('0\r\n\r\n')])
    const name = whole.upstream.plays(play)
    const response = await whole.gateway.open('/v1/messages', {
      body: { model: name, stream: true, max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
    })
    go()
    const reply = await read(response)
    assert.equal(assembledMessage(reply.frames)[0].text, 'held')
    assert.equal(reply.frames.at(-1)?.json.type, 'message_stop')
    assert.ok(
      reply.comments.length > 0 ||
        reply.frames[0]?.json.type === 'ping' ||
        reply.frames.some(({ json }) => json.type === 'ping'),
    )
  })
  test('an answer that is not streamed keeps its status, however late', async () => {
    const { play, go } = slowly(json(418, { error: { message: 'late' } }))
    const name = rig.upstream.plays(play)
    const pending = rig.gateway.chat(name, { stream: false })
    await rig.upstream.arrived(name)
    const timer = setTimeout(go, 15_500)
    const reply = await pending
    clearTimeout(timer)
    assert.equal(reply.status, 418)
    assert.deepEqual(reply.json, { error: { message: 'late' } })
  })

  test('SIGTERM lets a running stream finish', async () => {
    await using own = await Rig.start()
    const { play, go } = slowly(head(), [role, text('One')], [[text(' two'), finish(), done], bytes('0\r\n\r\n')])
    const name = own.upstream.plays(play)
    const reading = new Reading(await own.gateway.open('/v1/chat/completions', { body: chatBody(name) }))
    await reading.until((got) => got.includes('One'))
    own.gateway.running.child.kill('SIGTERM')
    go()
    await reading.until((got) => got.includes('[DONE]'))
    assert.equal((await own.gateway.running.ended).code, 0)
  })
  test('SIGTERM ends a stalled stream with an error, within the time that service managers allow', async () => {
    await using own = await Rig.start()
    const name = own.upstream.plays([head(), [role, text('One')], silence])
    const response = await own.gateway.open('/v1/chat/completions', { body: chatBody(name) })
    const reading = new Reading(response)
    await reading.until((got) => got.includes('One'))
    own.gateway.running.child.kill('SIGTERM')
    let cut = false
    try {
      await reading.until(() => false)
    } catch {
      cut = !response.complete
    }
    assert.ok(cut || reading.text.includes('"error"'), `a clean end without proof: ${reading.text}`)
    assert.equal((await own.gateway.running.ended).code, 0)
  })
})
