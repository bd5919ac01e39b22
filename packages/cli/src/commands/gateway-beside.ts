/** A gateway in the daemon's process, for `up --gateway`: the console shows its streams. Loaded only then. */
import type { Gateway } from '@breakfall/gateway'
import { Fault } from '@breakfall/faults'
import type { ResolvedConfig } from '../config/resolve.ts'

export async function gatewayBeside({ gateway, policy }: ResolvedConfig): Promise<Gateway> {
  if (gateway.upstream === undefined)
    throw new Fault('invalid_request', {
      error: 'The gateway needs a model server; set [gateway] upstream or [model] baseUrl in your config.toml',
    })
  const { startGateway } = await import('@breakfall/gateway')
  return startGateway({ upstream: [gateway.upstream], hold: gateway.hold, policy, logger: false })
}
