import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EXAMPLE_CONFIG, modelLines, writeExample } from '../src/commands/config.ts'
import type { LoadedConfig } from '../src/config/load.ts'
import { chooseModel, localServers } from '../src/model-choice.ts'

const nothingSet: LoadedConfig = { config: {}, origins: new Map(), warnings: [], files: [] }
const nobody = (): Promise<undefined> => Promise.resolve(undefined)
const urls = (env: Record<string, string>): readonly string[] => localServers(env).map(({ baseUrl }) => baseUrl)

test('local servers are looked for on their usual ports, or where their own variables say', () => {
  assert.deepEqual(urls({}), ['http://127.0.0.1:11434/v1', 'http://127.0.0.1:8080/v1'])
  for (const [host, url] of [
    ['0.0.0.0', 'http://127.0.0.1:11434/v1'],
    ['box:9000', 'http://box:9000/v1'],
    [':9000', 'http://127.0.0.1:9000/v1'],
    ['https://box/', 'https://box:11434/v1'],
    ['not an address at all', 'http://127.0.0.1:11434/v1'],
  ] as const)
    assert.equal(urls({ OLLAMA_HOST: host })[0], url, host)
  assert.equal(urls({ LLAMA_ARG_PORT: '9001' })[1], 'http://127.0.0.1:9001/v1')
  assert.equal(urls({ LLAMA_ARG_HOST: 'box' })[1], 'http://box:8080/v1')
})

test('config show says which model a run would use and why, and nothing of a key but its end', async () => {
  const lines = async (env: Record<string, string>): Promise<string> =>
    modelLines(await chooseModel(nothingSet, env, nobody)).join('\n')
  assert.match(await lines({}), /no model: none is set, and none answers/)
  const openai = await lines({ OPENAI_API_KEY: 'sk-0123456789abcdefghijklmn' })
  assert.match(
    openai,
    /the model gpt-5 at https:\/\/api\.openai\.com\/v1: OPENAI_API_KEY is set\n.*OPENAI_API_KEY: …klmn$/,
  )
  assert.match(
    await lines({ ANTHROPIC_API_KEY: 'short' }),
    /claude-sonnet-5 .*\nwith the key from ANTHROPIC_API_KEY: …$/,
  )
  const url = await lines({ OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' })
  assert.match(
    url,
    /the first model that is listed at http:\/\/127\.0\.0\.1:9\/v1: OPENAI_BASE_URL is set\nwithout a key/,
  )
})

test('the example is written where there is no config yet, and never over one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall config '))
  try {
    const file = join(folder, 'breakfall', 'config.toml')
    writeExample(file)
    assert.equal(readFileSync(file, 'utf8'), EXAMPLE_CONFIG)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.throws(() => writeExample(file), { category: 'invalid_request', error: /nothing was written.*one already/ })
    assert.throws(() => writeExample(join(file, 'x')), { error: /nothing was written.*cannot be written/ })
    assert.ok(existsSync(file))
  } finally {
    rmSync(folder, { recursive: true })
  }
})
