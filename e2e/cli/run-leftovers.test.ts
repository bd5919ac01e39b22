/** A run always ends, and leaves neither processes nor temporary folders behind. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasTerminals, isolation, Place } from '../breakfall.ts'
import { type ModelServer, startModelServer } from '../../test/kit/model-server.ts'
import { text, thought } from '../../test/kit/openai-frames.ts'
import { forever, head } from '../../test/kit/plays.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const TERMINAL = { ...LIMIT, skip: !hasTerminals && 'no "script" here' }

/** A private home with its own temporary folder, to count what is left in it. */
function placeWithScratch(): { place: Place; env: Record<string, string>; scratch: () => readonly string[] } {
  const place = new Place()
  const folder = join(place.home, 'tmp')
  mkdirSync(folder)
  const scratch = (): readonly string[] => readdirSync(folder).filter((name) => name.startsWith('breakfall-'))
  return { place, env: { TMPDIR: folder }, scratch }
}

test('a bad fault plan ends the demo and the proxy before they open anything', LIMIT, async () => {
  const { place, env, scratch } = placeWithScratch()
  await using _ = place
  for (const args of [
    ['run', '--faults', 'nonsense'],
    ['chaos', '--rehearsal', '--plan', 'faults=nonsense'],
    ['chaos', '--rehearsal', '--plan', 'no/such/plan.json'],
    ['chaos', '--rehearsal', '--upstream', 'http://127.0.0.1:9'],
  ]) {
    const { code, stderr } = await place.run(args, env)
    assert.equal(code, 2, `${args.join(' ')}: ${stderr}`)
  }
  assert.deepEqual([scratch(), place.leftovers()], [[], []])
})

test('a proxy exits with a message if its port is taken', LIMIT, async () => {
  await using place = new Place()
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const { code, stderr } = await place.run(['chaos', '--rehearsal', '--port', String(port)])
  assert.equal(code, 2)
  assert.match(stderr, new RegExp(`Port ${port} on 127.0.0.1 is in use`))
  server.close()
})

test('a run whose reader has left still finishes and cleans up', LIMIT, async () => {
  const { place, env, scratch } = placeWithScratch()
  await using _ = place
  const running = place.start(['run', '--rehearsal', '--json', '--faults', 'none'], env)
  await running.seen((line) => line['type'] === 'turn-start')
  running.child.stdout?.destroy()
  const [code] = (await once(running.child, 'exit')) as [number]
  assert.equal(code, 0)
  assert.deepEqual([scratch(), place.leftovers()], [[], []])
})

test("a rehearsal starts none of the user's own servers, and waits for none", LIMIT, async () => {
  await using place = new Place()
  const mark = join(place.home, 'started')
  mkdirSync(join(place.home, 'config', 'breakfall'), { recursive: true })
  writeFileSync(
    join(place.home, 'config', 'breakfall', 'config.toml'),
    `[mcp.slow]\ncommand = "sh"\nargs = ["-c", "touch '${mark}'; exec sleep 600"]\n`,
  )
  const { code, stderr, lines } = await place.run(['run', '--rehearsal', '--faults', 'none'])
  assert.equal(code, 0, stderr)
  assert.ok(!existsSync(mark), lines.join('\n'))
  assert.doesNotMatch(`${stderr}${lines.join('\n')}`, /slow/)
})

test('Ctrl-C before the turn has started ends the run with 130 and cleans up', LIMIT, async () => {
  const { place, env, scratch } = placeWithScratch()
  await using _ = place
  const running = place.start(['run', '--rehearsal'], env)
  await said(running.child, 'scripted;')
  running.child.kill('SIGINT')
  assert.equal((await running.ended).code, 130)
  assert.deepEqual([scratch(), place.leftovers()], [[], []])
})

test("Ctrl-C reaches the turn even if the run's daemon was killed a moment earlier", LIMIT, async () => {
  await using place = new Place()
  await using model = await talkingModel()
  const running = place.start(['run', 'go', '--json', '--model', 'any', ...isolation], {
    OPENAI_BASE_URL: model.url,
  })
  await running.seen((line) => line['type'] === 'text-delta')
  const { pid } = JSON.parse(readFileSync(join(place.stateDir, 'daemon.json'), 'utf8')) as { pid: number }
  process.kill(pid, 'SIGKILL')
  running.child.kill('SIGINT')
  const { code, json, stderr } = await running.ended
  assert.equal(code, 130, stderr)
  assert.equal(json.at(-1)?.['outcome'], 'cancelled')
  assert.deepEqual(place.leftovers(), [])
})

test('in a terminal the first Ctrl-C cancels and says so, the second exits immediately', TERMINAL, async () => {
  await using place = new Place()
  await using model = await talkingModel()
  const env = { OPENAI_BASE_URL: model.url }
  const once_ = place.startInTerminal(['run', 'go', '--model', 'any', ...isolation], env)
  await once_.shown(/word word/)
  once_.press('\x03')
  assert.equal(await once_.code, 130)
  assert.match(once_.text(), /cancelling… \(press again to exit at once\)[\s\S]*■ cancelled after 1 step/)
  const twice = place.startInTerminal(['run', 'go', '--model', 'any', ...isolation], env)
  await twice.shown(/word word/)
  twice.press('\x03')
  await twice.shown(/cancelling/)
  twice.press('\x03')
  assert.equal(await twice.code, 130)
})

test('reasoning in a terminal is dim from start to end, with one escape sequence on each side', TERMINAL, async () => {
  await using place = new Place()
  await using model = await talkingModel(['I ', 'think ', 'so'])
  const env = { OPENAI_BASE_URL: model.url }
  const coloured = place.startInTerminal(['run', 'go', '--model', 'any', ...isolation], env)
  await coloured.shown(/word/)
  assert.ok(coloured.text().includes('\x1b[2mI think so\x1b[22m\r\nword'), JSON.stringify(coloured.text()))
  coloured.press('\x03')
  await coloured.code
  const plain = place.startInTerminal(['run', 'go', '--model', 'any', ...isolation], { ...env, NO_COLOR: '1' })
  await plain.shown(/I think so\r\nword/)
  plain.press('\x03')
  await plain.code
  assert.ok(!plain.text().includes('\x1b'), JSON.stringify(plain.text()))
})

// ---- details ----

async function said(child: { stderr: NodeJS.ReadableStream | null }, words: string): Promise<void> {
  let text = ''
  for await (const chunk of child.stderr ?? []) if ((text += String(chunk)).includes(words)) return
}

/** Sends the given reasoning, then "word" again and again until the client hangs up. */
const talkingModel = (thoughts: readonly string[] = []): Promise<ModelServer> =>
  startModelServer([[head(), ...thoughts.map(thought), forever(text('word '), 20)]])
