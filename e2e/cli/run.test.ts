import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startRehearsalModel } from '@breakfall/chaos'
import { REHEARSAL_PROJECT, REHEARSAL_PROMPT } from '@breakfall/chaos/internal'
import { sessionEventSchema } from '@breakfall/wire'
import { hasSandbox, isolation, Place } from '../breakfall.ts'
import { type HttpServer, httpServer } from '../../test/kit/http-server.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const result = (lines: readonly Record<string, unknown>[]): Record<string, unknown> => lines.at(-1) ?? {}

test(
  'a new user without a model sees a real task finish despite a cut stream, a stall and a moved runner',
  LIMIT,
  async () => {
    await using place = new Place()
    const { code, json, stderr } = await place.run(['run', '--rehearsal', '--json'])
    assert.equal(code, 0, stderr)
    const last = result(json)
    assert.equal(last['event'], 'result')
    assert.equal(last['outcome'], 'finished')
    assert.match(String(last['text']), /all 4 checks passed/)
    assert.equal(last['faultsSurvived'], 3)
    const faults = json
      .filter((line) => line['type'] === 'retry')
      .map((line) => (line['fault'] as { category: string }).category)
    assert.deepEqual(faults.sort(), ['model_stream_interrupted', 'model_stream_stalled', 'runner_unreachable'])
    for (const line of json.slice(0, -1)) sessionEventSchema.parse(line)
    assert.deepEqual(
      json.slice(0, -1).map((line) => line['seq']),
      json.slice(0, -1).map((_, i) => i + 1),
    )
    assert.deepEqual(place.leftovers(), [])
  },
)

test(
  "the user's own model does a task in the current folder, and the run says which model and why",
  LIMIT,
  async () => {
    await using place = new Place(REHEARSAL_PROJECT)
    const model = await startRehearsalModel()
    try {
      const { code, json, stderr } = await place.run(
        ['run', REHEARSAL_PROMPT, '--json', '--model', 'rehearsal/fix', ...isolation],
        { OPENAI_BASE_URL: model.url },
      )
      assert.equal(code, 0, stderr)
      assert.match(stderr, /model: rehearsal\/fix at .* \(OPENAI_BASE_URL is set\)/)
      assert.equal(result(json)['outcome'], 'finished')
      assert.match(readFileSync(join(place.folder, 'slug.sh'), 'utf8'), /tr -s/)
      assert.deepEqual(place.leftovers(), [])
    } finally {
      await model.close()
    }
  },
)

test('a run survives the death of its daemon, and nothing happens twice', LIMIT, async () => {
  await using place = new Place()
  const model = await startRehearsalModel({ chunkDelayMs: 5 })
  try {
    const running = place.start(['run', 'count', '--json', '--model', 'rehearsal/steps-12', ...isolation], {
      OPENAI_BASE_URL: model.url,
    })
    for (const calls of [2, 5, 9]) {
      let seen = 0
      await running.seen((line) => line['type'] === 'tool-result' && ++seen >= calls)
      const { pid } = JSON.parse(readFileSync(join(place.stateDir, 'daemon.json'), 'utf8')) as { pid: number }
      process.kill(pid, 'SIGKILL')
      await running.seen((line) => line['type'] === 'taken-over' && Number(line['epoch']) > 0 && ++seen > calls)
    }
    const { code, json, stderr } = await running.ended
    assert.equal(code, 0, stderr)
    assert.equal(result(json)['outcome'], 'finished')
    const seqs = json.slice(0, -1).map((line) => line['seq'])
    assert.deepEqual(
      seqs,
      seqs.map((_, i) => i + 1),
    )
    const lines = readFileSync(join(place.folder, 'steps.log'), 'utf8').trim().split('\n')
    assert.equal(lines.length, 12)
    assert.equal(new Set(lines).size, 12)
  } finally {
    await model.close()
  }
})

test(
  'a run in another folder works even though the runner of a killed run in the first folder is still alive',
  LIMIT,
  async () => {
    await using place = new Place()
    await using other = new Place()
    const model = await startRehearsalModel({ chunkDelayMs: 5 })
    const env = { OPENAI_BASE_URL: model.url }
    try {
      const running = place.start(['run', 'count', '--json', '--model', 'rehearsal/steps-12', ...isolation], env)
      await running.seen((line) => line['type'] === 'tool-result')
      const { pid } = JSON.parse(readFileSync(join(place.stateDir, 'daemon.json'), 'utf8')) as { pid: number }
      running.child.kill('SIGKILL')
      process.kill(pid, 'SIGKILL')
      await running.ended
      const next = other.start(
        ['run', 'say', '--json', '--model', 'rehearsal/steps-2', '--state-dir', place.stateDir, ...isolation],
        env,
      )
      const { code, json, stderr } = await next.ended
      assert.equal(code, 0, stderr)
      assert.equal(result(json)['outcome'], 'finished')
      assert.equal(readFileSync(join(other.folder, 'steps.log'), 'utf8').trim().split('\n').length, 2)
    } finally {
      await model.close()
    }
  },
)

test('with a running daemon, runs work in any folder of the user, also two at once', LIMIT, async () => {
  await using place = new Place()
  await using other = new Place()
  const model = await startRehearsalModel({ chunkDelayMs: 5 })
  const env = { OPENAI_BASE_URL: model.url }
  try {
    const flags = ['--json', '--state-dir', place.stateDir]
    const daemon = place.start(
      [
        'up',
        ...flags,
        '--model',
        'rehearsal/steps-4',
        ...(hasSandbox ? [] : ['--allow-isolation', 'process', '--approve', 'never']),
      ],
      env,
    )
    await daemon.seen((line) => line['event'] === 'listening')
    const both = await Promise.all([
      place.run(['run', 'count', ...flags, ...isolation], env),
      other.run(['run', 'count', ...flags, ...isolation], env),
    ])
    for (const { code, json, stderr } of both) {
      assert.equal(code, 0, stderr)
      assert.match(stderr, /using the daemon at/)
      assert.equal(result(json)['outcome'], 'finished')
    }
    for (const { folder } of [place, other])
      assert.equal(readFileSync(join(folder, 'steps.log'), 'utf8').trim().split('\n').length, 4)
  } finally {
    await model.close()
  }
})

test('a key rejected while listing models is reported as such, not as a server without models', LIMIT, async () => {
  await using place = new Place()
  await using door = await keyedDoor('http://127.0.0.1:9/v1', 'right')
  const { code, stderr } = await place.run(['run', 'x'], {
    OPENAI_BASE_URL: `${door.url}/v1`,
    OPENAI_API_KEY: 'wrong',
  })
  assert.equal(code, 4)
  assert.match(
    stderr,
    /rejected the key when Breakfall asked for its models\. Nothing started\. Set a valid key in OPENAI_API_KEY and run this again\. \(With --model NAME the prompt is kept as a parked turn\.\)\n.*model_auth_failed: HTTP 401 /,
  )
})

test('the command that a run prints after a rejected key continues the turn with the right one', LIMIT, async () => {
  await using place = new Place(REHEARSAL_PROJECT)
  const rehearsal = await startRehearsalModel()
  await using door = await keyedDoor(rehearsal.url, 'right')
  try {
    const model = ['--model', 'rehearsal/fix', '--base-url', `${door.url}/v1`]
    const parked = await place.run(['run', REHEARSAL_PROMPT, ...model, ...isolation], { OPENAI_API_KEY: 'wrong' })
    assert.equal(parked.code, 4, parked.stderr)
    const [, printed = ''] = / breakfall (run --session .*)$/m.exec(parked.lines.join('\n')) ?? []
    assert.match(printed, /--base-url /, parked.lines.join('\n'))
    const continued = await place.run(printed.split(' '), { OPENAI_API_KEY: 'right' })
    assert.equal(continued.code, 0, continued.stderr + continued.lines.join('\n'))
  } finally {
    await rehearsal.close()
  }
})

// ---- details ----

/** Forwards requests with the key to the upstream and rejects all others, as a provider does. */
async function keyedDoor(upstream: string, key: string): Promise<HttpServer> {
  return httpServer((req, res) => {
    if (req.headers.authorization !== `Bearer ${key}`) {
      res.writeHead(401, { 'content-type': 'application/json' })
      res.end(
        JSON.stringify({
          error: {
            message: 'Incorrect API key provided',
            type: 'invalid_request_error',
            param: null,
            code: 'invalid_api_key',
          },
        }),
      )
      return
    }
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const init =
        req.method === 'POST'
          ? { method: 'POST', body: Buffer.concat(chunks), headers: { 'content-type': 'application/json' } }
          : {}
      void fetch(new URL(req.url ?? '/', upstream), init).then(async (answer) => {
        res.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' })
        res.end(Buffer.from(await answer.arrayBuffer()))
      })
    })
  })
}
