/**
 * A real llama-server: loading, a crash in the middle of an answer, a hang, a missing model. Opt-in: LLAMA_DIR names a folder with
 * `llama-server` and one small model, `*.gguf`.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { isFault } from '@breakfall/faults'
import { type ModelServer, serveModel } from '../../src/index.ts'
import { faultBy, untilState } from '../child-fixture.ts'

const folder = process.env['LLAMA_DIR'] ?? ''
const isThere = folder !== '' && existsSync(path.join(folder, 'llama-server'))
const model = isThere ? readdirSync(folder).find((name) => name.endsWith('.gguf')) : undefined
const skip =
  model === undefined ? 'needs a real llama-server: set LLAMA_DIR to a folder with llama-server and a *.gguf' : false

const server = (...more: readonly string[]): ModelServer =>
  serveModel({
    command: path.join(folder, 'llama-server'),
    args: ({ port }) => ['-m', path.join(folder, model ?? ''), '--port', `${port}`, '-c', '2048', ...more],
    limits: { backoffMs: 1, quietMs: 2_000 },
    health: { everyMs: 500, timeoutMs: 1_000 },
  })

/** A long answer, as a stream. */
async function ask(running: ModelServer): Promise<Response> {
  const messages = [{ role: 'user', content: 'Count from one to five hundred. Spell each number.' }]
  const body = JSON.stringify({ messages, stream: true, max_tokens: 400 })
  return running.fetch('/v1/chat/completions', {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  })
}

describe('a real llama-server', { skip, timeout: 600_000 }, () => {
  it('loads, says what it does meanwhile, answers, and stops', async () => {
    await using running = server()
    const starting = running.start()
    assert.equal(running.status.state, 'loading')
    await starting
    assert.ok((running.status.line ?? '') !== '')
    assert.match(await (await ask(running)).text(), /data: \[DONE\]/)
    assert.equal(running.status.boot, 1)
  })

  for (const [signal, category] of [
    ['SIGKILL', 'process_failed'],
    ['SIGSTOP', 'process_hung'],
  ] as const) {
    it(`that gets a ${signal} in the middle of an answer fails it with ${category}, and restarts`, async () => {
      await using running = server()
      await running.start()
      const reader = (await ask(running)).body?.getReader()
      await reader?.read()
      process.kill(running.supervised.pid ?? 0, signal)
      const fault = await faultBy(readAll(reader))
      assert.equal(fault.category, category)
      assert.equal(fault.report.serve?.boot, 1)
      await running.ready()
      assert.match(await (await ask(running)).text(), /data: \[DONE\]/)
    })
  }

  it('that works on a long prompt survives', async () => {
    await using running = server('-t', '1')
    await running.start()
    const prompt = 'The quick brown fox jumps over the lazy dog. '.repeat(150)
    const body = JSON.stringify({ prompt, n_predict: 1 })
    const response = await running.fetch('/completion', { method: 'POST', body })
    assert.equal(response.status, 200)
    await response.text()
    assert.equal(running.supervised.report, null)
  })

  it('without its model names the missing file', async () => {
    await using running = serveModel({
      command: path.join(folder, 'llama-server'),
      args: ({ port }) => ['-m', '/nowhere/missing.gguf', '--port', `${port}`],
      limits: { backoffMs: 1 },
    })
    const fault = await faultBy(running.start())
    assert.match(fault.error, /missing\.gguf/)
    const { fault: last } = await untilState(running.supervised, 'given_up')
    assert.ok(isFault(last))
  })
})

async function readAll(reader: ReadableStreamDefaultReader<Uint8Array> | undefined): Promise<void> {
  while (reader !== undefined && !(await reader.read()).done);
}
