/** For tests: a plain client of a gateway, and a gateway in front of a misbehaving model. */
import type { TestContext } from 'node:test'
import { type ModelServer, type Script, startModelServer } from '../../../test/kit/model-server.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../src/index.ts'

export const QUICK = { backoffMs: 1, attemptsMax: 3 }

export type Stand = { readonly model: ModelServer; readonly gateway: Gateway }

export async function stand(t: TestContext, script: Script, options: Partial<GatewayOptions> = {}): Promise<Stand> {
  const model = await startModelServer(script)
  const gateway = await startGateway({
    upstream: model.url,
    logger: false,
    ...options,
    policy: { ...QUICK, ...options.policy },
    limits: { closeMs: 50, ...options.limits },
  })
  t.after(async () => {
    await gateway.close()
    await model.close()
  })
  return { model, gateway }
}

export function post(
  url: string,
  body: unknown,
  init: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> } = {},
): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
    headers: { 'content-type': 'application/json', ...init.headers },
  })
}

export const CHAT = { model: 'fake-1', messages: [{ role: 'user', content: 'hi' }], stream: true }
