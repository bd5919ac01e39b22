/** Which model a run uses, over which API, and what happens to the key. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { API_KEY, Desk, endedWith, filesWith, REFUSING_URL, ofType } from './desk.ts'
import { messageDelta, messageStart, messageStop, textFrames, toolFrames } from '../../test/kit/anthropic-frames.ts'
import { type ModelServer, startModelServer } from '../../test/kit/model-server.ts'
import { cut, json, type Play, stream } from '../../test/kit/plays.ts'
import { ask, bash, byProgress, cutAfter, refuse, say } from '../answers.ts'

/** Lists two models and answers as any of them. */
function listingServer(root = ''): Promise<ModelServer> {
  return startModelServer(({ method, path }) => {
    if (path === '/') return json(200, root)
    if (method === 'GET')
      return json(200, { data: [{ id: 'listed-first' }, { id: 'second' }] }, { server: 'llama.cpp' })
    return say('hello')
  })
}

type Block = { readonly text: string } | { readonly id: string; readonly name: string; readonly input: object }

/** An Anthropic message of text and tool calls, whole or reset in its first block. */
function messages(blocks: readonly Block[], end: 'whole' | 'cut' = 'whole'): Play {
  const frames = blocks.map((block, index) => {
    if (!('input' in block)) return textFrames(index, block.text.slice(0, 5), block.text.slice(5))
    const args = JSON.stringify(block.input)
    return toolFrames(index, block.id, block.name, args.slice(0, 5), args.slice(5))
  })
  if (end === 'cut') return cut(messageStart, ...(frames[0] ?? []).slice(0, 2))
  const reason = blocks.some((block) => 'input' in block) ? 'tool_use' : 'end_turn'
  return stream(messageStart, ...frames.flat(), messageDelta(reason), messageStop)
}

describe('the model of a run', { ...LIMIT, concurrency: 2 }, () => {
  test('may speak the Anthropic messages API, including tools and cut streams', async () => {
    const use = { id: 'toolu_1', name: 'bash', input: { command: 'echo made >> ledger; echo seen' } }
    await using desk = await Desk.start([
      messages([{ text: 'I look first.' }], 'cut'),
      messages([{ text: 'I look first.' }, use]),
      messages([{ text: 'I have seen it.' }]),
    ])
    desk.config(
      `[model]\nbaseUrl = "${desk.model.url.replace('/v1', '')}"\napi = "anthropic-messages"\nname = "any"\napiKeyEnv = "WIRE_KEY"\n`,
    )
    const run = await desk.run(['go'], { bare: true, env: { WIRE_KEY: API_KEY } })
    endedWith(run, 0, 'finished')
    assert.equal(run.result.text, 'I have seen it.')
    assert.equal(run.result.faultsSurvived, 1)
    assert.deepEqual(desk.lines('ledger'), ['made'])
    const asked = desk.model.received('any')
    assert.equal(asked[0]?.headers['x-api-key'], API_KEY)
    assert.ok(asked[0]?.headers['anthropic-version'])
    assert.ok(Number(asked[0]?.body['max_tokens']) > 0)
    const last = JSON.stringify(asked[2]?.body.messages)
    assert.match(last, /"type":"tool_use".*"toolu_1"/)
    assert.match(last, /"type":"tool_result".*"tool_use_id":"toolu_1".*seen/)
  })

  test('can come from a local Ollama: the run takes the first listed model and says why', async () => {
    await using desk = await Desk.start()
    await using server = await listingServer('Ollama is running')
    const env = { OLLAMA_HOST: `127.0.0.1:${server.port}`, OPENAI_API_KEY: '' }
    const run = await desk.run(['go'], { bare: true, env })
    endedWith(run, 0, 'finished')
    assert.match(run.stderr, /model: listed-first at http/)
    assert.match(run.stderr, /Ollama answers/)
    const seen = server.requests.map(({ method, path }) => `${method} ${path}`)
    assert.ok(seen.includes('GET /v1/models') && seen.includes('POST /v1/chat/completions'), seen.join(' '))
  })

  test('the next model of the fallback list is used when the first has no attempts left, with its own key only', async () => {
    await using desk = await Desk.start()
    desk.model.script(
      'first',
      Array.from({ length: 9 }, () => refuse(500, { message: 'broken' })),
    )
    desk.model.script(
      'second',
      byProgress([ask([bash('echo by-the-second >> ledger')]), say('The second one did it.')]),
    )
    desk.config(
      [
        `[model]\nbaseUrl = "${desk.model.url}"\nname = "first"\napiKeyEnv = "FIRST_KEY"`,
        `[[model.fallback]]\nbaseUrl = "${REFUSING_URL}/v1"\nname = "away"`,
        `[[model.fallback]]\nbaseUrl = "${desk.model.url}"\nname = "second"\napiKeyEnv = "SECOND_KEY"`,
      ].join('\n\n'),
    )
    const env = { FIRST_KEY: `${API_KEY}-first`, SECOND_KEY: `${API_KEY}-second` }
    const run = await desk.run(['--attempts-max', '2', 'go'], { bare: true, env })
    endedWith(run, 0, 'finished')
    assert.equal(run.result.text, 'The second one did it.')
    assert.ok(ofType(run, 'retry').some((event) => event['action'] === 'fallback'))
    assert.deepEqual(desk.lines('ledger'), ['by-the-second'])
    for (const { headers } of desk.model.received('first'))
      assert.equal(headers.authorization, `Bearer ${API_KEY}-first`)
    for (const { headers } of desk.model.received('second'))
      assert.equal(headers.authorization, `Bearer ${API_KEY}-second`)
  })
})

const FAKE_SERVER = `
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
const port = Number(process.argv[2])
appendFileSync('starts', process.pid + '\\n')
const starts = readFileSync('starts', 'utf8').trim().split('\\n').length
createServer((req, res) => {
  if (req.method !== 'POST') return res.setHeader('content-type', 'application/json').end('{"status":"ok","data":[{"id":"served"}]}')
  req.resume().on('end', () => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (delta, finish_reason = null) => res.write('data: ' + JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'served', choices: [{ index: 0, delta, finish_reason }] }) + '\\n\\n')
    send({ role: 'assistant', content: 'Served ' })
    if (starts === 1) return setTimeout(() => { console.error('CUDA error: out of memory'); process.abort() }, 100)
    send({ content: 'well.' })
    send({}, 'stop')
    res.end('data: [DONE]\\n\\n')
  })
}).listen(port, '127.0.0.1')
`

describe('[model.serve]', { ...LIMIT }, () => {
  test('starts the server, restarts it after a crash, continues the turn, and leaves nothing behind', async () => {
    await using desk = await Desk.start()
    const script = desk.write('fake-server.mjs', FAKE_SERVER)
    desk.config(`[model]\nname = "served"\n\n[model.serve]\ncommand = ["${process.execPath}", "${script}", "{port}"]\n`)
    const run = await desk.run(['go'], { bare: true })
    endedWith(run, 0, 'finished')
    assert.equal(run.result.text, 'Served well.')
    const retries = ofType(run, 'retry')
    assert.ok(retries.length >= 1)
    assert.match(JSON.stringify(retries[0]), /memory/i, 'the attempt failed with the cause')
    assert.equal(desk.lines('starts').length, 2)
    assert.deepEqual(desk.place.leftovers(), [])
  })

  test('a server that cannot start is reported with its own error message', async () => {
    await using desk = await Desk.start()
    desk.config('[model]\nname = "served"\n\n[model.serve]\ncommand = ["no-such-llama-server", "--port", "{port}"]\n')
    const run = await desk.command(['run', '--json', '--park', 'never', '--attempts-max', '2', 'go'], { bare: true })
    assert.ok(run.code !== 0 && run.code !== null, run.lines.join('\n'))
    assert.match(run.lines.join('\n') + run.stderr, /no-such-llama-server/)
  })
})

describe('a key', { ...LIMIT, concurrency: 2 }, () => {
  test('appears in no output, log or file, even if the provider repeats it', async () => {
    const leak: Play = ({ headers }) => {
      const key = String(headers['authorization'])
      return refuse(500, { message: `failed for ${key}`, key: key.slice(7) })
    }
    const inBand: Play = cutAfter(`I was given `)
    await using desk = await Desk.start([
      leak,
      inBand,
      ask([bash('env; cat /proc/self/environ | tr "\\0" "\\n"')]),
      leak,
      say('Done.'),
    ])
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    assert.match(String(desk.model.received('any')[0]?.headers['authorization']), new RegExp(API_KEY), 'it was used')
    assert.equal(run.stdout.includes(API_KEY), false, 'stdout')
    assert.equal(run.stderr.includes(API_KEY), false, 'stderr')
    assert.deepEqual(filesWith(desk.place.home, API_KEY), [])
    const plain = await desk.command(['run', '--continue', '--park', 'never', 'again'], { env: { NO_COLOR: '1' } })
    assert.equal(plain.lines.join('\n').includes(API_KEY) || plain.stderr.includes(API_KEY), false)
    assert.deepEqual(filesWith(desk.place.home, API_KEY), [])
  })

  test('of an unknown shape is hidden too, because its value is known', async () => {
    const odd = 'Zebra-42-tango-plain-words'
    const leak: Play = ({ headers }) => refuse(500, { message: `no luck with ${headers['authorization']}` })
    await using desk = await Desk.start([leak, say('Done.')])
    const run = await desk.run(['go'], { env: { WIRE_KEY: odd } })
    endedWith(run, 0, 'finished')
    assert.equal(run.stdout.includes(odd) || run.stderr.includes(odd), false, run.stdout)
    assert.deepEqual(filesWith(desk.place.home, odd), [])
  })

  test("in the config, in place of its variable's name, is refused and not shown", async () => {
    await using desk = await Desk.start([say('not asked')])
    desk.config(`[model]\nbaseUrl = "${desk.model.url}"\napiKey = "${API_KEY}"\n`)
    const ended = await desk.command(['run', '--json', 'go'], { bare: true })
    assert.equal(ended.code, 2)
    assert.match(ended.stderr, /apiKey/)
    assert.equal(ended.stderr.includes(API_KEY) || ended.lines.join('').includes(API_KEY), false)
  })
})
