/** The engine inside another program: without a server and without a port. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd, tempFolder } from '../../../test/kit/folder.ts'
import { eventually } from '../../../test/kit/wait.ts'
import { type OpenEngine, openEngine, Secrets } from '../src/index.ts'
import { startScriptedModel } from './support/scripted-model.ts'

const ignored = (): undefined => undefined
const SILENT = { debug: ignored, info: ignored, warn: ignored, error: ignored }

test('an engine without a server survives a broken answer, and the next one finds the whole session', async (t) => {
  const model = await startScriptedModel((_, request) => (request < 2 ? { status: 503 } : { text: 'All of it.' }))
  atEnd(t, () => model.close())
  const options = {
    stateDir: tempFolder(t),
    model: { baseUrl: model.baseUrl, name: 'scripted' },
    policy: { backoffMs: 1 },
  }
  const opened = async (work: (engine: OpenEngine) => Promise<void>): Promise<void> => {
    const engine = await openEngine(options, { log: SILENT, secrets: new Secrets() })
    try {
      await engine.recover()
      await work(engine)
    } finally {
      await engine.handOver()
      await engine.close()
    }
  }
  let turnId = ''
  await opened(async ({ sessions }) => {
    const { id } = await sessions.create({ tools: [] })
    turnId = (await sessions.prompt(id, { prompt: 'Say it.' }, undefined)).turnId
    await eventually('the turn has ended', async () => (await sessions.turn(turnId)).state === 'finished')
  })
  await opened(async ({ sessions }) => {
    const { state, result, faultsSurvived } = await sessions.turn(turnId)
    assert.deepEqual(
      { state, text: result?.text, faultsSurvived },
      { state: 'finished', text: 'All of it.', faultsSurvived: 1 },
    )
  })
})
