/** Routes that break things on purpose. They exist only under `breakfall demo`, which brings what they act on. */
import { chaosKillSchema, chaosNextSchema, chaosPlanSchema, chaosSchema } from '@breakfall/wire'
import { readJson, type Route } from '@breakfall/wire/node'
import type { ChaosPort } from '../options.ts'

export function chaosRoutes(chaos: ChaosPort | undefined): readonly Route[] {
  if (chaos === undefined) return []
  return [
    {
      method: 'get',
      path: '/v1/chaos',
      operationId: 'getChaos',
      summary: 'The plan of faults, and what was injected',
      answers: { 200: chaosSchema },
      handle: async () => ({ status: 200, json: await chaos.read() }),
    },
    {
      method: 'put',
      path: '/v1/chaos/plan',
      operationId: 'setChaosPlan',
      summary: 'Which faults are injected from now on',
      body: chaosPlanSchema,
      answers: { 200: chaosSchema },
      faults: ['invalid_request'],
      handle: async ({ req }) => ({
        status: 200,
        json: await chaos.setPlan((await readJson(req, chaosPlanSchema)).plan),
      }),
    },
    {
      method: 'post',
      path: '/v1/chaos/next',
      operationId: 'injectNext',
      summary: 'Breaks the next answer of the model',
      body: chaosNextSchema,
      answers: { 202: chaosSchema },
      faults: ['invalid_request'],
      handle: async ({ req }) => ({
        status: 202,
        json: await chaos.injectNext((await readJson(req, chaosNextSchema)).fault),
      }),
    },
    {
      method: 'post',
      path: '/v1/chaos/kill',
      operationId: 'kill',
      summary: 'Kills the daemon or the runner, or moves the runner to another port',
      body: chaosKillSchema,
      answers: { 202: chaosKillSchema },
      faults: ['invalid_request'],
      handle: async ({ req }) => {
        const { what } = await readJson(req, chaosKillSchema)
        await chaos.kill(what)
        return { status: 202, json: { what } }
      },
    },
  ]
}
