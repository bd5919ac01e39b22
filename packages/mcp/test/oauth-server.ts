/**
 * A small authorization server and an MCP server behind it, on one loopback port: discovery, registration, PKCE, refresh with
 * rotation. Access tokens live until `expire`; whoever uses an old refresh token is refused.
 */
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { startHttpMcp, type HttpMcp } from './http-server.ts'

export type OauthMcp = {
  readonly url: string
  readonly mcp: HttpMcp
  /** Every token that it gave out. */
  readonly secrets: string[]
  readonly seen: string[]
  /** The access token in use is refused from now on. */
  expire(): void
  /** Refresh tokens are refused from now on. */
  revoke(): void
  /** The token endpoint answers 503. */
  isDown: boolean
  close(): Promise<void>
}

export async function startOauthMcp(): Promise<OauthMcp> {
  const mcp = await startHttpMcp()
  const secrets: string[] = []
  const seen: string[] = []
  const codes = new Map<string, { readonly challenge: string; readonly redirect: string; readonly client: string }>()
  const clients = new Map<string, readonly string[]>()
  let access = ''
  let refresh = ''
  let isDown = false
  const server = createServer((req, res) => {
    handle(req, res).catch(() => res.destroy())
  })
  const origin = (): string => {
    const address = server.address()
    return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  }
  const grant = (): object => {
    access = `access-${randomUUID()}`
    refresh = `refresh-${randomUUID()}`
    secrets.push(access, refresh)
    return { access_token: access, token_type: 'Bearer', expires_in: 3600, refresh_token: refresh }
  }
  const token = (form: URLSearchParams): object | string => {
    seen.push(`token ${form.get('grant_type') ?? ''}`)
    if (form.get('resource') !== `${origin()}/mcp`) return 'invalid_target'
    if (form.get('grant_type') === 'refresh_token')
      return form.get('refresh_token') === refresh && refresh !== '' ? grant() : 'invalid_grant'
    const code = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    const verifier = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isRight = code?.challenge === verifier && code.redirect === form.get('redirect_uri')
    return isRight ? grant() : 'invalid_grant'
  }
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const url = new URL(req.url ?? '/', origin())
    let body = ''
    for await (const chunk of req) body += String(chunk)
    const json = (status: number, value: object): void => {
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    switch (url.pathname) {
      case '/described':
        return json(200, { resource: `${origin()}/mcp`, authorization_servers: [origin()] })
      case '/.well-known/oauth-authorization-server':
        return json(200, {
          issuer: origin(),
          authorization_endpoint: `${origin()}/authorize`,
          token_endpoint: `${origin()}/token`,
          registration_endpoint: `${origin()}/register`,
          revocation_endpoint: `${origin()}/revoke`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none'],
        })
      case '/register': {
        const asked = JSON.parse(body) as { redirect_uris: string[] }
        const client = randomUUID()
        clients.set(client, asked.redirect_uris)
        return json(201, { ...asked, client_id: client })
      }
      case '/authorize': {
        const redirect = url.searchParams.get('redirect_uri') ?? ''
        const client = url.searchParams.get('client_id') ?? ''
        if (clients.get(client)?.includes(redirect) !== true) return json(400, { error: 'invalid_request' })
        const code = randomUUID()
        codes.set(code, { challenge: url.searchParams.get('code_challenge') ?? '', redirect, client })
        const back = new URL(redirect)
        back.searchParams.set('code', code)
        back.searchParams.set('state', url.searchParams.get('state') ?? '')
        res.writeHead(302, { location: back.href }).end()
        return
      }
      case '/token': {
        if (isDown) return json(503, { error: 'temporarily_unavailable' })
        const answer = token(new URLSearchParams(body))
        return typeof answer === 'string' ? json(400, { error: answer }) : json(200, answer)
      }
      case '/revoke': {
        if (isDown) return json(503, { error: 'temporarily_unavailable' })
        const form = new URLSearchParams(body)
        seen.push(`revoke ${form.get('token_type_hint') ?? ''}`)
        if (!clients.has(form.get('client_id') ?? '')) return json(401, { error: 'invalid_client' })
        if (form.get('token') === access) access = ''
        if (form.get('token') === refresh) refresh = ''
        return json(200, {})
      }
      case '/mcp': {
        if (access === '' || req.headers.authorization !== `Bearer ${access}`) {
          const challenge = `Bearer resource_metadata="${origin()}/described"`
          res.writeHead(401, { 'www-authenticate': challenge }).end()
          return
        }
        const headers = Object.fromEntries(
          Object.entries(req.headers).flatMap(([name, value]) =>
            typeof value === 'string' && !['host', 'authorization', 'connection', 'content-length'].includes(name)
              ? [[name, value]]
              : [],
          ),
        )
        const passed = await fetch(mcp.url, { method: req.method ?? 'GET', headers, ...(body === '' ? {} : { body }) })
        const text = await passed.text()
        const session = passed.headers.get('mcp-session-id')
        const type = passed.headers.get('content-type')
        res.writeHead(passed.status, {
          ...(session === null ? {} : { 'mcp-session-id': session }),
          ...(type === null ? {} : { 'content-type': type }),
        })
        res.end(text)
        return
      }
      default:
        return json(404, {})
    }
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `${origin()}/mcp`,
    mcp,
    secrets,
    seen,
    expire: () => (access = ''),
    revoke: () => (refresh = ''),
    get isDown() {
      return isDown
    },
    set isDown(value) {
      isDown = value
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
      await mcp.close()
    },
  }
}
