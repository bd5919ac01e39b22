/** Continuing a parked or finished run; how long a run waits; what a box may reach. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { hasSandbox, isolation } from '../breakfall.ts'
import { httpServer } from '../../test/kit/http-server.ts'
import { Desk, endedWith, ofType, serverIsolation } from './desk.ts'
import { ask, bash, refuse, say, startScriptedModel } from '../answers.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const OVERLOADED = refuse(503, { message: 'Overloaded', code: 'overloaded' })
const REFUSED = refuse(401, { message: 'Incorrect API key provided', code: 'invalid_api_key' })

describe('run --continue', { ...LIMIT, concurrency: 2 }, () => {
  test('resumes the parked turn of this folder without repeating finished tools, and the summary includes the faults before it', async () => {
    const tool = ask([bash('echo once >> ledger')])
    await using desk = await Desk.start([OVERLOADED, tool, REFUSED, say('Now it went.')])
    await desk.run(['--park-wait-ms', '1', 'go'])
    const { code, lines, stderr } = await desk.command(['run', '--continue', ...isolation])
    assert.equal(code, 0, stderr)
    const text = lines.join('\n')
    assert.doesNotMatch(text, /● bash/, 'it was shown before')
    assert.match(
      text,
      /✓ finished in 2 steps, \d faults? survived\n(?: {2}about .*\n)? {2}survived model_overloaded: .*\n {2}survived model_auth_failed: .* → parked, resumed by you/,
    )
    assert.match(text, /Now it went\./)
    assert.deepEqual(desk.lines('ledger'), ['once'])
  })

  test('without a prompt passes over newer sessions of the folder that have nothing to continue', async () => {
    await using desk = await Desk.start([REFUSED, say('Another answer.'), say('Now it went.')])
    const parked = await desk.run(['--park-wait-ms', '1', 'go'])
    endedWith(parked, 4, 'parked', 'model_auth_failed')
    endedWith(await desk.run(['something', 'else']), 0, 'finished')
    const run = await desk.run(['--continue'])
    endedWith(run, 0, 'finished')
    assert.equal(run.result.turnId, parked.result.turnId)
    assert.equal(run.result.text, 'Now it went.')
  })

  test('with a prompt continues the same session, and the model sees the earlier conversation', async () => {
    await using desk = await Desk.start([say('The word is plover.'), say('As I said.')])
    const first = await desk.run(['say', 'a', 'word'])
    const second = await desk.run(['--continue', 'again'])
    endedWith(second, 0, 'finished')
    assert.equal(second.events[0]?.sessionId, first.events[0]?.sessionId)
    assert.notEqual(second.result.turnId, first.result.turnId)
    assert.ok(
      second.events.every(({ turnId }) => turnId === second.result.turnId),
      'only new events are printed',
    )
    assert.equal(second.events[0]?.seq, (first.events.at(-1)?.seq ?? 0) + 1, 'seq numbers continue')
    const told = JSON.stringify(desk.model.received('any')[1]?.body.messages)
    assert.match(told, /say a word.*The word is plover\..*again/)
  })

  test('with nothing to continue says so and names the folder', async () => {
    await using desk = await Desk.start([say('not asked')])
    const ended = await desk.command(['run', '--json', '--continue'])
    assert.equal(ended.code, 1, ended.stderr)
    assert.ok(ended.stderr.includes(desk.folder), ended.stderr)
    assert.match(ended.stderr, /start one: breakfall run "PROMPT"/)
    assert.equal(desk.model.received('any').length, 0)
  })
})

describe('waiting', { ...LIMIT, concurrency: 2 }, () => {
  test('when the model comes back while the run waits, the run finishes', async () => {
    await using desk = await Desk.start()
    const { port } = new URL(desk.model.url)
    await desk.model.close()
    const running = desk.begin(['--attempts-max', '1', 'go'])
    await running.seen((line) => line['type'] === 'parked')
    const model = await startScriptedModel(Number(port))
    try {
      const ended = await running.ended
      assert.equal(ended.code, 0, ended.lines.join('\n'))
      assert.equal(ended.json.at(-1)?.['text'], '(script over)')
      assert.equal(ended.json.find(({ type }) => type === 'resumed')?.['because'], 'signal')
    } finally {
      await model.close()
    }
  })
})

describe("a box's network", { ...LIMIT, concurrency: 2, skip: !hasSandbox && 'no sandbox on this machine' }, () => {
  const lookUp = 'echo "curl: (6) Could not resolve host: example.com" >&2; exit 6'

  test('is off by default, and a failed lookup gets a hint about it', async () => {
    await using server = await hello()
    await using desk = await Desk.start([ask([bash(lookUp)]), ask([bash(server.command)]), say('I see.')])
    const run = await desk.run()
    endedWith(run, 0, 'finished')
    const [looked, called] = ofType(run, 'tool-result')
    assert.match(looked?.['text'], /this box has no network/i)
    assert.match(JSON.stringify(desk.model.received('any')[1]?.body.messages), /this box has no network/i)
    assert.equal(called?.['outcome'], 'failed')
    assert.equal(server.hits(), 0)
  })
})

/** A server on this machine's loopback, and a shell command that calls it. */
async function hello(): Promise<{ command: string; hits(): number } & AsyncDisposable> {
  let hits = 0
  const server = await httpServer((_, res) => {
    hits++
    res.end('hello from the host')
  })
  const talk = `exec 3<>/dev/tcp/127.0.0.1/${server.port} && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3`
  return { ...server, command: `bash -c '${talk}'`, hits: () => hits }
}

describe('resume without an id', { ...LIMIT, concurrency: 2 }, () => {
  test('resumes the only parked turn of the folder; if nothing waits, it says so', async () => {
    await using desk = await Desk.start([REFUSED, say('Now it went.')])
    const up = desk.start(['up', '--port', '0', '--json', ...serverIsolation])
    await up.seen((line) => line['event'] === 'listening')
    const parked = await desk.run(['--park-wait-ms', '1', 'go'])
    endedWith(parked, 4, 'parked', 'model_auth_failed')
    const resumed = await desk.command(['resume', '--json'])
    assert.equal(resumed.code, 0, resumed.stderr)
    assert.equal(resumed.json.at(-1)?.['id'], parked.result.turnId)
    const nothing = await desk.command(['resume'])
    assert.deepEqual([nothing.code, nothing.lines], [0, ['no turn is parked']], nothing.stderr)
  })

  test('lists what waits if there are several, and resumes none of them', async () => {
    await using desk = await Desk.start([REFUSED, REFUSED])
    const first = await desk.run(['--park-wait-ms', '1', 'one'])
    const second = await desk.run(['--park-wait-ms', '1', 'two'])
    const { code, lines, stderr } = await desk.command(['resume'])
    assert.equal(code, 0, stderr)
    const text = lines.join('\n')
    for (const { result } of [first, second]) assert.ok(text.includes(String(result['sessionId']).slice(0, 8)), text)
    assert.match(text, /waiting for a valid key/)
    assert.equal(desk.model.received('any').length, 2)
  })
})
