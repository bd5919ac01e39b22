/** A task for real clients: call the tool `bash` once with `ls`, then answer. */
import assert from 'node:assert/strict'
import { Agent, type Model, Runner, tool } from '@openai/agents'
import { untyped } from '../../../test/kit/json.ts'

export const PARAMETERS = {
  type: 'object',
  properties: { command: { type: 'string' } },
  required: ['command'],
  additionalProperties: false,
} as const

/** Plays it with `@openai/agents`. */
export async function listWithAgents(model: Model): Promise<string> {
  const ran: string[] = []
  const bash = tool({
    name: 'bash',
    description: 'runs a command',
    parameters: untyped(PARAMETERS),
    strict: true,
    execute: (input: unknown) => {
      ran.push((input as { command: string }).command)
      return 'README'
    },
  })
  const agent = new Agent({ name: 'lister', model, tools: [bash] })
  const result = await new Runner({ tracingDisabled: true }).run(agent, 'which files?', { stream: true })
  await result.completed
  assert.deepEqual(ran, ['ls'])
  return String(result.finalOutput)
}
