/** What breaks things on purpose. They exist only under `breakfall demo`, which brings what they act on. */
import type { ChaosPort } from '../options.ts'
import type { SomeHandlers } from './routes.ts'

export function chaosHandlers(chaos: ChaosPort | undefined) {
  if (chaos === undefined) return {}
  return {
    getChaos: () => chaos.read(),
    setChaosPlan: async ({ body }) => chaos.setPlan((await body()).plan),
    injectNext: async ({ body }) => chaos.injectNext((await body()).fault),
    kill: async ({ body }) => {
      const { what } = await body()
      await chaos.kill(what)
      return { what }
    },
  } satisfies SomeHandlers
}
