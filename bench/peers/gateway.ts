/** Any client, unchanged, with the gateway between it and the model. */
import { startGateway } from '@breakfall/gateway'
import { type Player, STALL_MS } from './player.ts'

export function throughGateway(player: Player): Player {
  return {
    name: `${player.name}, gateway`,
    drives: 'gateway',
    package: player.package,
    settings: `as above, through the gateway with hold answer, livenessMs ${STALL_MS}`,
    async play(run) {
      const gateway = await startGateway({
        upstream: run.baseUrl,
        hold: 'answer',
        policy: { livenessMs: STALL_MS },
        logger: false,
      })
      try {
        return await player.play({ ...run, baseUrl: gateway.url })
      } finally {
        await gateway.close()
      }
    },
  }
}
