/** What a program that registered an OpenTelemetry SDK learns about the calls of the model client. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { metrics } from '@opentelemetry/api'
import {
  AggregationTemporality,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, role, text } from '../../../test/kit/openai-frames.ts'
import { head, json, reset } from '../../../test/kit/plays.ts'
import { ChatSpan } from '../src/telemetry/chat-span.ts'
import { TELEMETRY } from '../src/telemetry/names.ts'
import { ask } from './collect.ts'

const { attributes: A, metrics: M } = TELEMETRY
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
const provider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter })] })
metrics.setGlobalMeterProvider(provider)
after(() => provider.shutdown())

/** What was recorded under this name about the calls to one model. */
async function recorded(name: string, model: string): Promise<Histogram | undefined> {
  exporter.reset()
  await provider.forceFlush()
  const all = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
  const points = all.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? []
  return points.find(({ attributes }) => attributes[A.requestModel] === model)?.value as Histogram | undefined
}

test('the first chunk of a call is measured from its start, and every other one from the chunk before it', async () => {
  const call = new ChatSpan({ api: 'openai-chat', model: 'three-chunks', baseUrl: 'http://127.0.0.1:1/v1' })
  for (let chunk = 0; chunk < 3; chunk++) call.chunk()
  call.end({ finish: 'stop' })
  call.chunk() // too late to count
  assert.equal((await recorded(M.firstChunk, 'three-chunks'))?.count, 1)
  const others = await recorded('gen_ai.client.inference.time_per_output_chunk', 'three-chunks')
  assert.equal(others?.count, 2)
  assert.deepEqual(others.buckets.boundaries.slice(0, 3), [0.01, 0.02, 0.04], 'the buckets are for seconds')
})

test('an answer that needs two attempts is one call: the first chunk of the second attempt follows the last of the first', async (t) => {
  const model = await startModelServer([[head(), role, text('Hello wor'), reset], answer('Hello world')])
  t.after(() => model.close())
  assert.equal((await ask(model.url, { model: 'cut' })).text, 'Hello world')
  assert.equal((await recorded(M.firstChunk, 'cut'))?.count, 1)
  assert.ok(((await recorded(M.perChunk, 'cut'))?.count ?? 0) >= 1)
})

test('an answer in one piece is one chunk', async (t) => {
  const message = { role: 'assistant', content: 'Hello' }
  const model = await startModelServer([json(200, { choices: [{ index: 0, message, finish_reason: 'stop' }] })])
  t.after(() => model.close())
  assert.equal((await ask(model.url, { model: 'whole' })).text, 'Hello')
  assert.equal((await recorded(M.firstChunk, 'whole'))?.count, 1)
  assert.equal(await recorded(M.perChunk, 'whole'), undefined)
})
