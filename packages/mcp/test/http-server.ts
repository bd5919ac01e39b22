/**
 * A small MCP server over HTTP, of 2025 or with the tasks of 2026, that loses sessions, refuses credentials and cuts responses.
 *
 * no-session: answers the next call with 404, without an effect. acts-then-404, acts-then-400: the same after the effect, as behind
 * a balancer that sends the request to a second replica. scope: 403 with insufficient_scope. unterminated: its event has no
 * blank line. unlisted: an error to tools/list. asks: a call needs an answer of the user first. defers: a call is to be sent again
 * with its state. bare: a result of 2026 without `resultType`.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

export type HttpMcp = {
  readonly url: string
  readonly seen: string[]
  /** The parameters of calls that continue after a question. */
  readonly answers: Record<string, unknown>[]
  behaviour:
    | 'ok'
    | 'no-session'
    | '401'
    | 'cut'
    | 'task'
    | 'acts-then-404'
    | 'acts-then-400'
    | 'scope'
    | 'unterminated'
    | 'unlisted'
    | 'asks'
    | 'defers'
    | 'bare'
  /** How often the tool acted. */
  effects: number
  taskStatus: 'working' | 'completed'
  /** The session ends between two calls. */
  forget(): void
  close(): Promise<void>
}

type Message = { readonly id?: number | string; readonly method: string; readonly params?: Record<string, unknown> }

export async function startHttpMcp(era: '2025' | '2026' = '2025', port = 0): Promise<HttpMcp> {
  let session = 0
  const server = createServer((req, res) => void handle(req, res))
  const mcp: Omit<HttpMcp, 'url' | 'close'> = {
    seen: [],
    answers: [],
    behaviour: 'ok',
    taskStatus: 'working',
    effects: 0,
    forget: () => {
      session += 1
    },
  }
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    res.shouldKeepAlive = false // a server that is away then refuses the next connection
    if (req.method !== 'POST') return void res.writeHead(405).end()
    let body = ''
    for await (const chunk of req) body += String(chunk)
    const { id, method, params } = JSON.parse(body) as Message
    mcp.seen.push(method)
    if (params?.['inputResponses'] !== undefined) mcp.answers.push({ ...params })
    if (mcp.behaviour === '401') return void res.writeHead(401).end()
    if (id === undefined) return void res.writeHead(202).end()
    const isLost = era === '2025' && method !== 'initialize' && req.headers['mcp-session-id'] !== `s${session}`
    if (isLost || (mcp.behaviour === 'no-session' && method === 'tools/call')) {
      if (mcp.behaviour === 'no-session') {
        mcp.behaviour = 'ok'
        session += 1
      }
      return void res.writeHead(404).end()
    }
    const json = (result: object): void => {
      const headers = { 'content-type': 'application/json', 'mcp-session-id': `s${session}` }
      const whole = era === '2026' && mcp.behaviour !== 'bare' ? { resultType: 'complete', ...result } : result
      res.writeHead(200, era === '2026' ? { 'content-type': 'application/json' } : headers)
      res.end(JSON.stringify({ jsonrpc: '2.0', id, result: whole }))
    }
    const refuse = (code: number): void => {
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: 'no' } }))
    }
    switch (method) {
      case 'server/discover':
        if (era === '2025') return refuse(-32_601)
        return json({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} } })
      case 'initialize':
        return json({
          protocolVersion: params?.['protocolVersion'],
          capabilities: { tools: {} },
          serverInfo: { name: 'http', version: '1' },
        })
      case 'tools/list':
        if (mcp.behaviour === 'unlisted') return refuse(-32_603)
        return json({
          tools: [{ name: 'act', inputSchema: { type: 'object' } }],
          ...(era === '2026' ? { ttlMs: 0, cacheScope: 'private' } : {}),
        })
      case 'tools/call':
        if (mcp.behaviour === 'cut') {
          mcp.effects += 1
          res.writeHead(200, { 'content-type': 'text/event-stream' })
          res.write(': here it comes\n\n')
          setTimeout(() => res.destroy(), 50)
          return
        }
        if (mcp.behaviour === 'asks' && params?.['inputResponses'] === undefined)
          return json({
            resultType: 'input_required',
            inputRequests: {
              sure: {
                method: 'elicitation/create',
                params: {
                  mode: 'form',
                  message: 'Which account?',
                  requestedSchema: { type: 'object', properties: { account: { type: 'string' } } },
                },
              },
            },
            requestState: 'asked',
          })
        if (mcp.behaviour === 'defers' && params?.['requestState'] === undefined)
          return json({ resultType: 'input_required', requestState: 'later' })
        if (mcp.behaviour === 'scope') {
          const challenge = 'Bearer error="insufficient_scope", scope="act:write", error_description="no"'
          return void res.writeHead(403, { 'www-authenticate': challenge }).end()
        }
        mcp.effects += 1
        if (mcp.behaviour === 'acts-then-404' || mcp.behaviour === 'acts-then-400') {
          const status = mcp.behaviour === 'acts-then-404' ? 404 : 400
          mcp.behaviour = 'ok'
          mcp.forget()
          return void res.writeHead(status).end()
        }
        if (mcp.behaviour === 'unterminated') {
          res.writeHead(200, { 'content-type': 'text/event-stream' })
          const result = { content: [{ type: 'text', text: 'acted' }] }
          return void res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}`)
        }
        if (mcp.behaviour === 'task')
          return json({ resultType: 'task', taskId: 'task-1', status: 'working', pollIntervalMs: 50 })
        return json({ content: [{ type: 'text', text: 'acted' }] })
      case 'tasks/get': {
        const result = { content: [{ type: 'text', text: `result of ${String(params?.['taskId'])}` }] }
        return json({
          taskId: params?.['taskId'],
          status: mcp.taskStatus,
          ...(mcp.taskStatus === 'completed' ? { result } : {}),
        })
      }
      case 'ping':
        return json({})
      default:
        return refuse(-32_601)
    }
  }
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/mcp`
  return Object.assign(mcp, {
    url,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  })
}
