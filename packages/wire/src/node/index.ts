/** Building blocks of a service on Node: a bounded HTTP server, routes as data, guards, tokens, bodies, SSE responses. */
export { bodyChunks, readBytes, readJson } from './body.ts'
export { bearerToken, checkHost, checkOrigin, sameToken } from './guards.ts'
export { type Bound, createHttpServer, type HttpServer, type Refusal } from './http-server.ts'
export { newId } from './new-id.ts'
export { createService, type RequestContext, type Route, type RouteResult } from './service.ts'
export { SseResponse } from './sse-response.ts'
export { findGrant, loadTokens, parseTokens, readOnlyFault, refuseIfReadOnly, type TokenGrant } from './tokens.ts'
export { FleetKey, readFleetKey } from './fleet-key.ts'
