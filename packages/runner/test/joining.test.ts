/** How a runner stays registered: what it does with each answer, after a sleep, and when it is alone. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../../test/kit/wait.ts'
import { Joining, type JoiningParts } from '../src/join/joining.ts'

type Seen = { readonly url: string; readonly token: string; readonly body: { url: string } }

async function daemon(t: TestContext, answer: (seen: readonly Seen[]) => readonly [number, object]) {
  const seen: Seen[] = []
  const server = createServer((req, res) => {
    let text = ''
    req.on('data', (chunk: Buffer) => (text += chunk.toString()))
    req.on('end', () => {
      seen.push({ url: req.url ?? '', token: req.headers.authorization ?? '', body: JSON.parse(text) })
      const [status, body] = answer(seen)
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  return { seen, url: `http://127.0.0.1:${port}` }
}

function started(t: TestContext, parts: Partial<JoiningParts> & Pick<JoiningParts, 'urls'>) {
  const at = { wall: 1_000, monotonic: 1_000 }
  const problems: string[] = []
  const joinedAt: string[] = []
  const joining = new Joining({
    runnerId: 'r1',
    tickMs: 5,
    token: () => 'secret',
    facts: () => Promise.resolve({ url: 'http://here' }),
    clock: { now: () => at.wall, monotonicMs: () => at.monotonic, machineBootId: 'm' },
    onProblem: (line) => problems.push(line),
    onJoined: (url) => joinedAt.push(url),
    ...parts,
  })
  joining.start()
  t.after(() => joining.close())
  return { at, problems, joinedAt }
}

test('it registers with its token, and again after ten seconds, or after a jump between the clocks', async (t) => {
  const { seen, url } = await daemon(t, () => [200, {}])
  const { at, joinedAt } = started(t, { urls: [url] })
  await eventually('joined', () => joinedAt.length)
  assert.deepEqual([seen[0]?.url, seen[0]?.token], ['/v1/runners/r1', 'Bearer secret'])
  at.monotonic += 10_000
  at.wall += 10_000
  await eventually('again', () => seen.length === 2)
  at.wall += 60_000 // the machine slept: the monotonic clock stood still
  await eventually('at once', () => seen.length === 3)
  assert.deepEqual(joinedAt, [url])
})

test('an address that the daemon cannot reach is asked for again after two seconds', async (t) => {
  const { seen, url } = await daemon(t, ({ length }) => (length === 1 ? [202, { reachable: false }] : [200, {}]))
  let asked = 0
  const facts = () => Promise.resolve({ url: `http://port-${(asked += 1)}` })
  const { at, problems, joinedAt } = started(t, { urls: [url], facts })
  await eventually('refused', () => problems.length)
  at.monotonic += 2_000
  at.wall += 2_000
  await eventually('joined', () => joinedAt.length)
  assert.deepEqual(
    seen.map(({ body }) => body.url),
    ['http://port-1', 'http://port-2'],
  )
})

test('the next daemon is asked if one is away, and a refusal is reported once', async (t) => {
  const { url } = await daemon(t, () => [401, {}])
  const { at, problems } = started(t, { urls: ['http://127.0.0.1:9', url] })
  await eventually('both are reported', () => problems.length === 2)
  assert.match(problems[1] ?? '', /fleet enroll/)
  at.monotonic += 10_000
  at.wall += 10_000
})

test('alone for too long, it ends its execs once', async (t) => {
  let stops = 0
  const { at } = started(t, { urls: ['http://127.0.0.1:9'], alone: { afterMs: 5_000, stop: () => (stops += 1) } })
  at.wall += 4_000
  at.monotonic += 4_000
  await eventually('a look', () => true)
  assert.equal(stops, 0)
  at.wall += 2_000
  await eventually('it stops', () => stops === 1)
})
