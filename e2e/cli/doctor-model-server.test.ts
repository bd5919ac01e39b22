/** What `doctor` and `config show` say about a model server that Breakfall starts, with real servers. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { type Ended, Place } from '../breakfall.ts'
import type { Json } from '../daemon/client.ts'
import { Desk, whole } from './desk.ts'

/** Loads, and then answers; or fails in the way that its last argument names. It reports each start in the file `pid`. */
const SERVER = `
import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'
const [port, how] = process.argv.slice(-2)
writeFileSync(new URL('pid', import.meta.url), String(process.pid))
console.error('load_tensors: loading model tensors')
console.error('the key is ' + process.env.SERVER_API_KEY)
if (how === 'fails') {
  console.error("llama_model_load: error loading model: unknown model architecture: 'qwen9'")
  console.error('main: exiting due to model loading error')
  process.exit(1)
}
const answer = (req, res) => {
  if (req.url === '/health') return res.end('{"status":"ok"}')
  if (how === 'dies') {
    console.error('CUDA error: out of memory')
    process.abort()
  }
  if (how === 'refuses') return res.writeHead(500).end('{"error":{"message":"the engine is broken"}}')
  res.end('{"object":"list","data":[{"id":"tiny"}]}')
}
if (how === 'loads') setInterval(() => undefined, 1000)
else createServer(answer).listen(Number(port), '127.0.0.1', () => console.error('main: model loaded'))
process.on('SIGTERM', () => { console.error('cleaning up before exit'); process.exit(0) })
`

async function deskWith(how: string, more: readonly string[] = []): Promise<Desk> {
  const desk = await Desk.start()
  const script = desk.write('server.mjs', SERVER)
  serve(desk, [process.execPath, script, ...more, '{port}', how])
  return desk
}

const serve = (desk: Desk, command: readonly string[]): void =>
  desk.config(`[model]\nname = "tiny"\n\n[model.serve]\ncommand = ${JSON.stringify(command)}\n`)

const startModel = (desk: Desk): Promise<Ended> =>
  desk.command(['doctor', '--start-model', '--json'], { bare: true, env: { SERVER_API_KEY: 'hunter2hunter2' } })

const finding = ({ json }: Ended, check: string): Json => {
  const found = (json as readonly Json[]).find((line) => line.check === check)
  assert.ok(found !== undefined, `${check} in ${JSON.stringify(json)}`)
  return found
}

/** The doctor ended with exactly this exit code and left nothing behind. */
function endedCleanly(desk: Desk, ended: Ended, code: number): void {
  assert.equal(ended.code, code, ended.lines.join('\n') + ended.stderr)
  assert.deepEqual(desk.place.leftovers(), [])
  assert.equal(existsSync(desk.stateDir), false, 'no state folder')
}

describe('doctor, with a model server that Breakfall starts', { ...LIMIT, concurrency: 2 }, () => {
  test('checks the program and the files of its command, and does not start it', async () => {
    await using desk = await deskWith('works')
    const fine = await desk.command(['doctor', '--json'], { bare: true })
    assert.equal(finding(fine, 'model server').verdict, 'ok')
    assert.match(finding(fine, 'model server').found, /server\.mjs exist, and \{port\} becomes a free port/)
    endedCleanly(desk, fine, 0)
    assert.equal(existsSync(join(desk.folder, 'pid')), false, 'not started')

    serve(desk, ['no-such-llama-server', '-m', '/models/none.gguf', '--mmproj', '~/v.gguf', '--port', '{port}'])
    const wrong = await desk.command(['doctor', '--json'], { bare: true })
    const found = (wrong.json as readonly Json[]).filter(({ verdict }) => verdict === 'bad')
    assert.deepEqual(
      found.map((line) => line.found),
      [
        'there is no program no-such-llama-server on the PATH',
        '/models/none.gguf (-m) does not exist',
        '~/v.gguf (--mmproj) is no path: no shell expands the ~',
      ],
    )
    for (const { check, fix } of found) {
      assert.equal(check, 'model server')
      assert.ok(String(fix).includes(`${desk.configFile}:5`), fix)
    }
    endedCleanly(desk, wrong, 1)

    serve(desk, ['llama-server', '--port', '8080'])
    const refused = await desk.command(['doctor', '--json'], { bare: true })
    assert.equal(refused.code, 1)
    assert.match(refused.lines.join('\n'), /config\.toml:5: model\.serve\.command must be a command with \{port\}/)
  })

  test('--start-model starts it once, says how long it loads and what it prints, and stops it', async () => {
    await using desk = await deskWith('works')
    const ended = await startModel(desk)
    endedCleanly(desk, ended, 0)
    const start = finding(ended, 'model start')
    assert.equal(start.verdict, 'ok')
    assert.match(start.found, /^loaded in .*; it answers and lists tiny$/)
    assert.ok(start.loadMs > 0)
    assert.deepEqual(start.said, ['load_tensors: loading model tensors', 'the key is [redacted]', 'main: model loaded'])
    const text = await desk.command(['doctor', '--start-model'], { bare: true })
    assert.match(text.lines.join('\n'), /✓ model start {2}loaded in .*\n +\| load_tensors/)
  })

  test('--start-model names the line that explains a failed start, and exits with 1', async () => {
    await using desk = await deskWith('fails')
    const ended = await startModel(desk)
    endedCleanly(desk, ended, 1)
    const start = finding(ended, 'model start')
    assert.equal(start.verdict, 'bad')
    assert.match(start.found, /exited with code 1 while it was starting.*architecture/)
    assert.doesNotMatch(start.found, /above this line|restart/)
    assert.equal(start.fault.category, 'process_failed')
    assert.equal(start.fault.diagnostics[0].id, 'llamacpp.unknown_arch')
    assert.ok(start.said.includes('main: exiting due to model loading error'))
    assert.ok(start.fix.includes(`${desk.configFile}:5`))
  })

  test('--start-model names a program that is missing', async () => {
    await using desk = await Desk.start()
    serve(desk, ['no-such-llama-server', '--port', '{port}'])
    const ended = await startModel(desk)
    endedCleanly(desk, ended, 1)
    const start = finding(ended, 'model start')
    assert.match(start.found, /there is no program no-such-llama-server on the PATH/)
    assert.equal(start.fault.category, 'process_start_failed')
  })

  test('--start-model finds a server that loads but then refuses the first request or dies of it', async () => {
    for (const [how, found] of [
      ['refuses', /^loaded in .*, but: .*the engine is broken/s],
      ['dies', /^loaded in .*, but: the model server \(node\) .*out of memory/i],
    ] as const) {
      await using desk = await deskWith(how)
      const ended = await startModel(desk)
      endedCleanly(desk, ended, 1)
      const start = finding(ended, 'model start')
      assert.match(`${start.found} ${start.fault.errorRaw}`, found)
      assert.ok(start.loadMs > 0)
    }
  })

  test('--start-model that is interrupted while the model loads exits with 130 and leaves nothing behind', async () => {
    await using desk = await deskWith('loads')
    const running = desk.start(['doctor', '--start-model', '--json'], { bare: true })
    await eventually('the server is started', () => existsSync(join(desk.folder, 'pid')))
    running.child.kill('SIGINT')
    const ended = await whole(running)
    endedCleanly(desk, ended, 130)
    assert.equal(ended.json.at(-1)?.['outcome'], 'cancelled')
  })

  test('--start-model without a server to start is a usage error', async () => {
    await using place = new Place()
    const none = await place.run(['doctor', '--start-model'])
    assert.equal(none.code, 2)
    assert.match(none.stderr, /there is no \[model\.serve\] or \[providers\.NAME\.serve\] command/)
    await using desk = await deskWith('works')
    const replaced = await desk.command(['doctor', '--start-model'])
    assert.equal(replaced.code, 2)
    assert.match(replaced.stderr, /BREAKFALL_MODEL_BASE_URL replaces \[model\.serve\]/)
  })
})

test('config show names the command, its origin and what it replaces, without the keys in it', LIMIT, async () => {
  await using desk = await deskWith('works', ['--api-key', 'hunter2'])
  const own = await desk.command(['config', 'show', '--origin'], { bare: true })
  assert.match(
    own.lines.join('\n'),
    /model\.serve\.command = \[.*"--api-key","…","\{port\}","works"\] {3}# .*config\.toml:5/,
  )
  assert.match(own.lines.join('\n'), /a run would use tiny of .*node, started by Breakfall/)
  desk.config(
    `[model]\nbaseUrl = "http://127.0.0.1:9/v1"\n[model.serve]\ncommand = ["s", "--api-key=hunter2", "{port}"]\n`,
  )
  const both = await desk.command(['config', 'show'], { bare: true })
  assert.match(both.lines.join('\n'), /model\.baseUrl \(.*config\.toml:2\) is not used: model\.serve comes first/)
  const json = await desk.command(['config', 'show', '--json'], { bare: true })
  for (const shown of [own, both, json]) assert.doesNotMatch(shown.lines.join('\n'), /hunter2/)
})
