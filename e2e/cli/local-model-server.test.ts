/** A local model server from the config: a crash fails the attempt with its cause, the server restarts, the turn continues. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { isolation, Place } from '../breakfall.ts'
import { fileURLToPath } from 'node:url'

/** Speaks OpenAI's protocol. Its second answer breaks off with the error of a GPU that is out of memory. */
const SERVER = `
import { createServer } from 'node:http'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
const port = Number(process.argv[process.argv.indexOf('--port') + 1])
const starts = new URL('starts', import.meta.url)
appendFileSync(starts, 'x')
const first = readFileSync(starts, 'utf8').length === 1
let answers = 0
const chunk = (delta, finish = null) => 'data: ' + JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] }) + '\\n\\n'
createServer((req, res) => {
  if (req.method === 'GET') return res.end(JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model' }] }))
  req.resume()
  req.on('end', () => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(chunk({ role: 'assistant', content: 'Hello ' }))
    if (first && ++answers === 1) {
      process.stderr.write('CUDA error: out of memory\\n  current device: 0, in function alloc at ggml-cuda.cu:110\\n')
      setTimeout(() => process.abort(), 50)
      return
    }
    res.end(chunk({ content: 'world' }) + chunk({}, 'stop') + 'data: [DONE]\\n\\n')
  })
}).listen(port, '127.0.0.1')
`

test('a model server that runs out of GPU memory is restarted, and the turn finishes without help', LIMIT, async () => {
  await using place = new Place()
  const script = join(place.home, 'fake-llama-server.mjs')
  writeFileSync(script, SERVER)
  mkdirSync(join(place.home, 'config', 'breakfall'), { recursive: true })
  writeFileSync(
    join(place.home, 'config', 'breakfall', 'config.toml'),
    `[model]\nname = "m"\n[model.serve]\ncommand = ${JSON.stringify([process.execPath, script, '--port', '{port}'])}\n[policy]\nbackoffMs = 50\n`,
  )
  const { code, json, stderr } = await place.run(['run', 'say hello', '--json'])
  assert.equal(code, 0, stderr)
  const last = json.at(-1)
  assert.equal(last?.['outcome'], 'finished')
  assert.equal(last?.['text'], 'Hello world')
  const retries = json.filter((line) => line['type'] === 'retry')
  assert.ok(retries.length > 0)
  assert.match(JSON.stringify(retries[0]), /out of memory/i, 'the cause is reported')
  assert.equal(readFileSync(join(place.home, 'starts'), 'utf8').length, 2)
  assert.deepEqual(place.leftovers(), [])
})

test('while a model loads, run says so, with the last line that the server printed', LIMIT, async () => {
  await using place = new Place()
  const program = fileURLToPath(new URL('../../packages/daemon/test/programs/model-with-bad-boots.ts', import.meta.url))
  const command = [process.execPath, program, '{port}', join(place.home, 'boots'), 'loads:3000']
  mkdirSync(join(place.home, 'config', 'breakfall'), { recursive: true })
  writeFileSync(
    join(place.home, 'config', 'breakfall', 'config.toml'),
    `[model]\nname = "m"\n[model.serve]\ncommand = ${JSON.stringify(command)}\n`,
  )
  const { code, lines, stderr } = await place.run(['run', 'say hello', ...isolation])
  assert.equal(code, 0, stderr)
  const text = lines.join('\n')
  assert.match(text, /^… the model server: loading for \d+ m?s: load_tensors: \d+ of 10$/m)
  assert.match(text, /^whole at last$/m)
})

test('a daemon logs its main events as text, with --json as JSON, and --quiet turns them off', LIMIT, async () => {
  for (const [flags, logged] of [
    [[], /^\d{4}-\d\d-\d\d [\d:]{8} UTC {2}listening/m],
    [['--json'], /^\{.*"msg":"listening"\}$/m],
    [['--quiet'], undefined],
  ] as const) {
    await using place = new Place()
    const running = place.start(['up', ...flags])
    while (!existsSync(join(place.stateDir, 'daemon.json'))) await sleep(10)
    running.child.kill('SIGTERM')
    const { code, stderr } = await running.ended
    assert.equal(code, 0, stderr)
    if (logged === undefined) assert.doesNotMatch(stderr, /listening/)
    else assert.match(stderr, logged)
    assert.equal(/^\{/m.test(stderr), flags[0] === '--json', stderr)
  }
})

test(
  'a server keeps running when the reader of its first line has gone, and shuts down cleanly on request',
  LIMIT,
  async () => {
    await using place = new Place()
    for (const args of [
      ['runner', '--port', '0'],
      ['up', '--port', '0'],
      ['gateway', '--upstream', 'http://127.0.0.77:9009/v1', '--port', '0'],
      ['chaos', '--rehearsal', '--port', '0'],
    ]) {
      const running = place.start([...args, '--json'])
      const { url } = await running.seen(({ event }) => event === 'listening')
      running.child.stdout?.destroy()
      for (const asked of ['v1/health', 'v1/health'])
        // it logs every request or none
        assert.ok((await fetch(new URL(asked, `${String(url)}/`))).status > 0, args.join(' '))
      running.child.kill('SIGTERM')
      const [code] = (await once(running.child, 'exit')) as [number]
      assert.equal(code, 0, args.join(' '))
    }
  },
)
