/** What a service on Node needs around the wire: routes as data, guards, tokens, bounded bodies, SSE responses. */
export { sendFault, sendJson } from './answers.ts'
export { BODY_BYTES_MAX, bodyChunks, readBytes, readJson } from './body.ts'
export { bearerToken, checkHost, checkOrigin, sameToken } from './guards.ts'
export {
  type CloseOptions,
  createHttpServer,
  type HttpServer,
  type HttpServerLimits,
  type HttpServerOptions,
  type Refusal,
} from './http-server.ts'
export { createService, type RequestContext, type Route, type RouteResult, type ServiceOptions } from './service.ts'
export { SSE_HEARTBEAT_MS, SseResponse } from './sse-response.ts'
export { findGrant, loadTokens, parseTokens, type TokenGrant } from './tokens.ts'
