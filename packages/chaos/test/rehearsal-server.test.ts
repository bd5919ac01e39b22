/** The rehearsal model over HTTP, through the official packages. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { type Content, GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { type RehearsalModel, startRehearsalModel } from '../src/index.ts'
import { createStepsTool } from '../src/internal.ts'

async function start(t: TestContext, chunkDelayMs = 0): Promise<RehearsalModel> {
  const model = await startRehearsalModel({ chunkDelayMs })
  t.after(() => model.close())
  return model
}

const FINAL = /^All 4 steps ran, each once and in order\. Checksum: \d+ \d+\.$/

test('the openai package plays steps to the end, streaming and not', async (t) => {
  const model = await start(t)
  const client = new OpenAI({ baseURL: model.url, apiKey: 'none' })
  for (const isStream of [true, false]) {
    const tool = createStepsTool()
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'go' }]
    for (;;) {
      const body = { model: 'rehearsal/steps-4', messages }
      const answer = isStream
        ? await client.chat.completions
            .stream({ ...body, stream_options: { include_usage: true } })
            .finalChatCompletion()
        : await client.chat.completions.create(body)
      assert.ok((answer.usage?.completion_tokens ?? 0) > 0)
      const message = answer.choices[0]?.message
      assert.ok(message)
      messages.push(message)
      if (message.tool_calls === undefined || message.tool_calls.length === 0) {
        assert.match(message.content ?? '', FINAL)
        break
      }
      assert.equal(answer.choices[0]?.finish_reason, 'tool_calls')
      for (const call of message.tool_calls) {
        assert.ok(call.type === 'function')
        const { command } = JSON.parse(call.function.arguments) as { command: string }
        messages.push({ role: 'tool', tool_call_id: call.id, content: tool.bash(command) })
      }
    }
  }
  assert.equal(model.requests.length, 10)
  assert.deepEqual(
    model.requests.slice(0, 5).map(({ results, script }) => [results, script]),
    [0, 1, 2, 3, 4].map((results) => [results, 'steps-4']),
  )
})

test('the Anthropic package plays steps to the end, streaming and not', async (t) => {
  const model = await start(t)
  const client = new Anthropic({ baseURL: model.url.replace(/\/v1$/, ''), apiKey: 'none' })
  for (const isStream of [true, false]) {
    const tool = createStepsTool()
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'go' }]
    for (;;) {
      const body = { model: 'rehearsal/steps-4', max_tokens: 1_000, messages }
      const answer = isStream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body)
      messages.push({ role: 'assistant', content: answer.content })
      const calls = answer.content.filter((block) => block.type === 'tool_use')
      if (calls.length === 0) {
        assert.equal(answer.stop_reason, 'end_turn')
        assert.match(answer.content.map((block) => (block.type === 'text' ? block.text : '')).join(''), FINAL)
        break
      }
      assert.equal(answer.stop_reason, 'tool_use')
      const results = calls.map((call) => ({
        type: 'tool_result' as const,
        tool_use_id: call.id,
        content: tool.bash((call.input as { command: string }).command),
      }))
      messages.push({ role: 'user', content: results })
    }
  }
})

test('the Google GenAI package plays steps to the end, streaming and not', async (t) => {
  const model = await start(t)
  const client = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: model.url.replace(/\/v1$/, '') } })
  for (const isStream of [true, false]) {
    const tool = createStepsTool()
    const contents: Content[] = [{ role: 'user', parts: [{ text: 'go' }] }]
    for (;;) {
      const body = { model: 'rehearsal/steps-4', contents }
      const chunks = isStream
        ? await Array.fromAsync(await client.models.generateContentStream(body))
        : [await client.models.generateContent(body)]
      assert.equal(chunks.at(-1)?.candidates?.[0]?.finishReason, 'STOP')
      const parts = chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? [])
      contents.push({ role: 'model', parts })
      const calls = parts.flatMap((part) => part.functionCall ?? [])
      if (calls.length === 0) {
        assert.match(parts.map((part) => (part.thought === true ? '' : part.text)).join(''), FINAL)
        break
      }
      contents.push({
        role: 'user',
        parts: calls.map(({ name = '', args }) => ({
          functionResponse: { name, response: { output: tool.bash(String(args?.['command'])) } },
        })),
      })
    }
  }
  assert.equal(model.requests.length, 10)
})

test('the same request gets the same bytes', async (t) => {
  const model = await start(t)
  for (const path of ['chat/completions', 'messages']) {
    const ask = async (): Promise<string> => {
      const body = { model: 'rehearsal/fix', stream: true, messages: [{ role: 'user', content: 'go' }] }
      return (await fetch(`${model.url}/${path}`, { method: 'POST', body: JSON.stringify(body) })).text()
    }
    assert.equal(await ask(), await ask())
  }
})

test('reasoning comes in separate deltas', async (t) => {
  const model = await start(t)
  const body = { model: 'rehearsal/fix', stream: true, messages: [{ role: 'user', content: 'go' }] }
  const text = await (
    await fetch(`${model.url}/chat/completions`, { method: 'POST', body: JSON.stringify(body) })
  ).text()
  assert.match(text, /"delta":\{"reasoning_content":"/)
})

test('a client that disconnects ends a paced answer', async (t) => {
  const model = await start(t, 5)
  const body = { model: 'rehearsal/fix', stream: true, messages: [{ role: 'user', content: 'go' }] }
  const leave = new AbortController()
  const answer = await fetch(`${model.url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
    signal: leave.signal,
  })
  await answer.body?.getReader().read()
  leave.abort()
  await model.close()
  assert.equal(model.requests[0]?.isComplete, false)
})

test('bad requests get the errors of each API', async (t) => {
  const model = await start(t)
  const ask = async (path: string, body: string, method = 'POST'): Promise<[number, unknown]> => {
    const answer = await fetch(`${model.url}${path}`, { method, ...(method === 'POST' ? { body } : {}) })
    return [answer.status, await answer.json()]
  }
  const [status, json] = await ask('/chat/completions', '{"mess')
  assert.equal(status, 400)
  assert.equal((json as { error: { type: string } }).error.type, 'invalid_request_error')
  assert.equal((await ask('/chat/completions', '{}'))[0], 400)
  assert.equal((await ask('/chat/completions', '{"messages":[{"role":"cat"}]}'))[0], 400)
  assert.equal((await ask('/chat/completions', '{"model":"rehearsal/x","messages":[]}'))[0], 404)
  assert.equal((await ask('/chat/completions', '', 'GET'))[0], 405)
  assert.equal((await ask('/nowhere', '{}'))[0], 404)
  const [, anthropic] = await ask('/messages', '[]')
  assert.equal((anthropic as { type: string }).type, 'error')
  const [, models] = await ask('/models', '', 'GET')
  assert.ok((models as { data: { id: string }[] }).data.some(({ id }) => id === 'rehearsal/fix'))
})
