/** The SDKs of `docs/how-to/use-the-model-client.md` with `resilientFetch()`, each as an agent in a trial. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Place } from '../breakfall.ts'
import { LIMIT } from '../../test/kit/wait.ts'

/** Those that break an answer after it began: the others are retried before any of it reached the SDK. */
const FAULTS = 'fin,early_end,cut_tool_arguments:finish=false:ending=reset,stall:600000'
const IMPATIENT = JSON.stringify({ policy: { livenessMs: 1_500 } }) // the default is two minutes

describe('a trial of resilientFetch', { ...LIMIT, concurrency: true }, () => {
  for (const sdk of ['openai', 'anthropic', 'ai'])
    test(`${sdk}: each fault leaves an exact run`, async () => {
      await using place = new Place()
      const agent = [process.execPath, join(import.meta.dirname, 'sdk-agent.ts'), sdk, IMPATIENT]
      const { code, lines, stderr } = await place.run(['trial', '--faults', FAULTS, '--json', '--', ...agent])
      assert.equal(code, 0, stderr)
      assert.deepEqual((JSON.parse(lines.at(-1) ?? '') as { score: unknown }).score, { exact: 4, of: 4 })
    })
})
