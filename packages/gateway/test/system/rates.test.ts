/** Whole agent runs of real clients through the gateway, while one request in twenty, ten or five fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { startFaultProxy, startRehearsalModel } from '@breakfall/chaos'
import { createStepsTool } from '@breakfall/chaos/internal'
import { agents } from '../../../../bench/peers/agents.ts'
import { ai } from '../../../../bench/peers/ai.ts'
import { openai } from '../../../../bench/peers/openai.ts'
import { BASH, type Player } from '../../../../bench/peers/player.ts'
import { startGateway } from '../../src/index.ts'

const STEPS = 25
const SEED = 7
const FAULTS = [
  'reset_before_headers',
  'fin_before_headers',
  { kind: 'status', status: 503 },
  { kind: 'status', status: 429, retryAfter: '10ms' },
  'reset',
  'fin',
  'early_end',
  { kind: 'stall', ms: 60_000 },
  { kind: 'cut_tool_arguments', finish: true },
  { kind: 'cut_tool_arguments', finish: false },
  { kind: 'cut_tool_arguments', keep: 'none' },
  'malformed_line',
  'in_band_error',
  'missing_last_chunk',
  'stale_keepalive',
] as const

const anthropic: Player = {
  name: '@anthropic-ai/sdk',
  drives: 'alone',
  package: '@anthropic-ai/sdk',
  settings: '',
  play: async ({ baseUrl, bash, model, prompt, signal }) => {
    const client = new Anthropic({ baseURL: baseUrl.replace(/\/v1$/, ''), apiKey: 'none', logLevel: 'off' })
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: prompt }]
    const tools = [{ name: BASH.name, input_schema: { ...BASH.parameters, required: ['command'] } }]
    const texts: string[] = []
    for (;;) {
      const { content } = await client.messages
        .stream({ model, max_tokens: 999, messages, tools }, { signal })
        .finalMessage()
      texts.push(content.map((block) => (block.type === 'text' ? block.text : '')).join(''))
      const uses = content.filter((block) => block.type === 'tool_use')
      if (uses.length === 0) return { texts }
      messages.push({ role: 'assistant', content })
      const results = uses.map(({ id, input }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: bash((input as { command: string }).command),
      }))
      messages.push({ role: 'user', content: results })
    }
  },
}

const EXPECTED = Array.from({ length: STEPS }, (_, index) => `line ${index + 1} of ${STEPS}\n`).join('')

for (const rate of [0.05, 0.1, 0.2]) {
  for (const player of [openai, ai, agents, anthropic]) {
    test(`${player.name} plays ${STEPS} steps exactly while ${rate * 100} % of requests fail (seed ${SEED})`, async (t) => {
      const model = await startRehearsalModel()
      const proxy = await startFaultProxy({ upstream: model.url, plan: { seed: SEED, rate, faults: FAULTS } })
      const gateway = await startGateway({
        upstream: proxy.url,
        logger: false,
        policy: { backoffMs: 5, livenessMs: 300, headersMs: 2_000 },
        limits: { closeMs: 50 },
      })
      t.after(async () => {
        await gateway.close()
        await proxy.close()
        await model.close()
      })
      const tool = createStepsTool()
      const { texts } = await player.play({
        baseUrl: gateway.url,
        model: `rehearsal/steps-${STEPS}`,
        prompt: 'go on',
        stepsMax: STEPS + 5,
        bash: (command) => tool.bash(command),
        signal: AbortSignal.timeout(60_000),
      })
      assert.equal(tool.log, EXPECTED, 'each tool ran once, in order')
      const wanted = Array.from(
        { length: STEPS },
        (_, index) => `Step ${index + 1} of ${STEPS}: I add line ${index + 1}.`,
      )
      assert.deepEqual(texts.slice(0, STEPS), wanted, 'no text twice, none missing')
      assert.match(texts.at(-1) ?? '', new RegExp(`^All ${STEPS} steps ran`))
      assert.ok(proxy.injected.length > 0, 'faults were injected')
      assert.equal(gateway.stats().totals.lost, 0)
    })
  }
}
