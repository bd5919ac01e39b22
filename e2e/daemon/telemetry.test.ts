/** OpenTelemetry: what a collector gets from a daemon and a gateway, what it must not get, and what happens without one. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { httpServer, type HttpServer } from '../../test/kit/http-server.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { ask, bash, cutAfter, refuse, say } from '../answers.ts'
import { API_KEY, Rig } from './rig.ts'

type Attribute = { key: string; value: { stringValue?: string; intValue?: string | number; doubleValue?: number } }
type Span = {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  attributes: Attribute[]
  links?: { traceId: string }[]
  events?: { name: string }[]
  status: { code?: number }
}

/** A collector that keeps what it gets. */
async function collector(): Promise<HttpServer & { spans(): Span[]; text(): string }> {
  const bodies: { path: string; text: string }[] = []
  const server = await httpServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      bodies.push({ path: req.url ?? '', text: Buffer.concat(chunks).toString() })
      res.setHeader('content-type', 'application/json').end('{}')
    })
  })
  return Object.assign(server, {
    text: () => bodies.map(({ text }) => text).join('\n'),
    spans: () =>
      bodies
        .filter(({ path }) => path === '/v1/traces')
        .flatMap(({ text }): { scopeSpans: { spans: Span[] }[] }[] => JSON.parse(text).resourceSpans)
        .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
  })
}

const valueOf = ({ attributes }: Span, name: string): string | number | undefined => {
  const value = attributes.find(({ key }) => key === name)?.value
  return value?.stringValue ?? value?.intValue ?? value?.doubleValue
}

const children = (spans: readonly Span[], { spanId }: Span): Span[] =>
  spans.filter(({ parentSpanId }) => parentSpanId === spanId)

const CALLER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

test(
  'a turn with two retries is one trace: the turn, a call with three attempts, a tool; and no prompt, key or output',
  LIMIT,
  async () => {
    await using otlp = await collector()
    await using rig = await Rig.start({ up: false })
    rig.config(`[telemetry]\notlpEndpoint = "${otlp.url}"\n`)
    await rig.up()
    const session = await rig.session([
      cutAfter('secret-partial '),
      refuse(503, { message: 'busy' }),
      ask([bash('echo secret-output; echo "[$TRACEPARENT]"')], 'secret-answer'),
      say('Done.'),
    ])
    const prompted = await rig.prompt(session.id, 'secret-prompt', {}, { traceparent: CALLER })
    assert.equal(prompted.status, 202, prompted.text)
    const events = await rig.events(session.id, '?after=0')
    await events.ended(prompted.json.turnId)
    await rig.stop() // sends what is left
    const spans = otlp.spans()

    const [turn] = spans.filter(({ name }) => name === 'invoke_agent breakfall')
    assert.ok(turn)
    assert.equal(turn.traceId, CALLER.split('-')[1], 'the turn is part of the trace of its caller')
    assert.equal(turn.parentSpanId, CALLER.split('-')[2])
    assert.equal(valueOf(turn, 'gen_ai.conversation.id'), session.id)
    const chats = children(spans, turn).filter(({ name }) => name === `chat ${session.model}`)
    assert.equal(chats.length, 2, 'one span for each logical call')
    const [first] = chats.map((chat) => children(spans, chat)).filter((attempts) => attempts.length === 3)
    assert.ok(first, 'the first call has three attempts')
    const resends = first.map((span) => Number(valueOf(span, 'http.request.resend_count')))
    assert.deepEqual(new Set(resends), new Set([0, 1, 2])) // O1
    assert.ok(first.every(({ name, kind }) => name === 'POST' && kind === 3))
    assert.ok(first.some((span) => valueOf(span, 'error.type') === 'model_stream_interrupted'))
    assert.ok(first.some((span) => Number(valueOf(span, 'http.response.status_code')) === 503))
    assert.ok(chats.some((chat) => valueOf(chat, 'gen_ai.response.time_to_first_chunk') !== undefined))
    const [tool] = children(spans, turn).filter(({ name }) => name === 'execute_tool bash')
    assert.ok(tool)

    const sent = rig.model.requests.flatMap(({ headers }) => headers['traceparent'] ?? [])
    const attempts = chats
      .flatMap((chat) => children(spans, chat))
      .map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`)
    assert.deepEqual(sent.toSorted(), attempts.toSorted(), 'each request carries its attempt')
    const output = events.events.find((event) => event.type === 'tool-result')?.['text']
    assert.ok(String(output).includes(`[00-${tool.traceId}-${tool.spanId}-01]`), 'a command gets the span of its call')
    for (const secret of ['secret-', API_KEY, 'echo ']) assert.ok(!otlp.text().includes(secret), secret) // O4
    for (const name of ['duration', 'time_to_first_chunk', 'time_per_output_chunk'])
      assert.ok(otlp.text().includes(`"gen_ai.client.inference.${name}"`), name) // a chunk came after the cut
  },
)

test('a park ends the trace, and what follows is a trace that links to it', LIMIT, async () => {
  await using otlp = await collector()
  await using rig = await Rig.start({ up: false })
  rig.config(`[telemetry]\notlpEndpoint = "${otlp.url}"\n`)
  await rig.up()
  const session = await rig.session([refuse(401, { message: 'no' }), say('Done.')])
  const { turnId, events } = await rig.turn(session.id)
  await events.until((event) => event.type === 'parked')
  const parked = await eventually('the parked segment', () =>
    otlp.spans().find(({ name }) => name.startsWith('invoke_agent')),
  )
  assert.deepEqual(
    parked.events?.map(({ name }) => name),
    ['breakfall.parked'],
  )
  await rig.stop() // another process resumes it
  await rig.up()
  await rig.call('POST', `/v1/turns/${turnId}/resume`, { body: {} })
  await (await rig.events(session.id, '?after=0')).ended(turnId)
  await rig.stop()
  const resumed = otlp.spans().filter((span) => span.name.startsWith('invoke_agent') && span.traceId !== parked.traceId)
  assert.ok(resumed.length > 0)
  assert.ok(resumed.every(({ links }) => links?.[0]?.traceId === parked.traceId))
})

test(
  'a command that outlives its daemon keeps the span of its call, whatever the next daemon traces',
  LIMIT,
  async () => {
    await using otlp = await collector()
    await using rig = await Rig.start({ up: false })
    rig.config(`[telemetry]\notlpEndpoint = "${otlp.url}"\n`)
    await rig.up()
    const wait = 'echo "[$TRACEPARENT]"; until [ -e go ]; do sleep 0.1; done'
    const session = await rig.session([ask([bash(wait)]), say('Done.')], { box: { workspace: rig.place.folder } })
    const { turnId, events } = await rig.turn(session.id)
    const called = await events.until((event) => event.type === 'tool-call')
    await events.until((event) => event.type === 'tool-output')
    await rig.kill9()
    rig.config('')
    await rig.up() // starts the same exec again, which the runner refuses if anything of it differs
    writeFileSync(join(rig.place.folder, 'go'), '')
    const after = await rig.events(session.id, '?after=0')
    await after.ended(turnId)
    const result = after.events.find((event) => event.type === 'tool-result')
    assert.deepEqual([result?.['outcome'], result?.['text']], ['ok', `[${String(called['traceparent'])}]`])
    const start = after.events.find((event) => event.type === 'turn-start')
    assert.notEqual(called['traceparent'], start?.['traceparent'], 'it is not the span of the turn')
  },
)

test('a collector that is gone, or never answers, slows no turn, and the daemon still stops', LIMIT, async () => {
  await using silent = await httpServer(() => undefined)
  await using rig = await Rig.start({ up: false })
  for (const url of ['http://127.0.0.77:9009', silent.url]) {
    // O3: the first refuses connections
    rig.config(`[telemetry]\notlpEndpoint = "${url}"\n`)
    await rig.up()
    const session = await rig.session(Array.from({ length: 10 }, () => say('Done.')))
    for (let turn = 0; turn < 10; turn++) assert.equal((await rig.wholeTurn(session.id)).last.type, 'turn-end')
    await rig.stop()
  }
})

test('a collector that refuses what it gets is reported once in the log, and by the doctor', LIMIT, async () => {
  await using refusing = await httpServer((_, res) => void res.writeHead(400).end())
  await using otlp = await collector()
  await using rig = await Rig.start({ up: false })
  rig.config(`[telemetry]\notlpEndpoint = "${refusing.url}"\n`)
  const gateway = rig.place.start(['gateway', '--upstream', rig.model.url, '--port', '0', '--json'])
  await gateway.listening()
  const said = (): number => gateway.stderr.split('does not take traces').length - 1
  await eventually('the warning', () => said() === 1)
  const { stderr } = await gateway.stop() // sends once more
  assert.match(stderr, /^\{"level":40,.*The telemetry collector at http.*\}$/m)
  assert.equal(said(), 1)
  const verdict = async (): Promise<unknown> =>
    (await rig.place.run(['doctor', '--json'])).json.find(({ check }) => check === 'telemetry')?.['verdict']
  assert.equal(await verdict(), 'warn')
  rig.config(`[telemetry]\notlpEndpoint = "${otlp.url}"\n`)
  assert.equal(await verdict(), 'ok')
})

test(
  'without telemetry a trace passes through to the model server, and a gateway passes its own spans on',
  LIMIT,
  async () => {
    await using rig = await Rig.start()
    const session = await rig.session([say('Done.')])
    const prompted = await rig.prompt(session.id, 'go', {}, { traceparent: CALLER })
    await (await rig.events(session.id, '?after=0')).ended(prompted.json.turnId)
    assert.equal(rig.model.requests.at(-1)?.headers['traceparent'], CALLER)

    await using otlp = await collector()
    rig.config(`[telemetry]\notlpEndpoint = "${otlp.url}"\n`)
    rig.model.script('any', [refuse(503, { message: 'busy' }), say('Done.')])
    const gateway = rig.place.start([
      'gateway',
      '--upstream',
      rig.model.url,
      '--port',
      '0',
      '--json',
      '--backoff-ms',
      '1',
    ])
    const { url } = await gateway.listening()
    const body = JSON.stringify({ model: 'any', stream: true, messages: [{ role: 'user', content: 'secret-prompt' }] })
    const headers = { 'content-type': 'application/json', traceparent: CALLER, authorization: `Bearer ${API_KEY}` }
    assert.match(
      await (await fetch(`${String(url)}/chat/completions`, { method: 'POST', headers, body })).text(),
      /Done/,
    )
    await gateway.stop()
    const [chat] = otlp.spans().filter(({ name }) => name === 'chat any')
    assert.ok(chat)
    assert.equal(chat.parentSpanId, CALLER.split('-')[2])
    assert.deepEqual(
      children(otlp.spans(), chat).map((span) => Number(valueOf(span, 'http.request.resend_count'))),
      [0, 1],
    )
    assert.ok(!otlp.text().includes('secret-') && !otlp.text().includes(API_KEY))
  },
)
