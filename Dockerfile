# The command `breakfall`, with bubblewrap for its boxes. See docs/how-to/run-in-containers.md.

# The packages, from the sources in this folder.
FROM node:24-bookworm-slim AS build
WORKDIR /src
COPY . .
RUN npm run build -- --out /built && mkdir /packed && npm pack --pack-destination /packed /built/*

# Installed as a user installs them, without the tools that built them.
FROM node:24-bookworm-slim AS install
COPY --from=build /packed /packed
RUN npm install --prefix /opt/breakfall --omit=dev --no-audit --no-fund /packed/*.tgz

FROM node:24-bookworm-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends bubblewrap ca-certificates git tini \
  && rm -rf /var/lib/apt/lists/* \
  && mkdir -p /state /config /work \
  && chown node:node /state /config /work
COPY --from=install /opt/breakfall /opt/breakfall
ENV PATH=/opt/breakfall/node_modules/.bin:$PATH \
  XDG_CONFIG_HOME=/config \
  BREAKFALL_DAEMON_STATE_DIR=/state
USER node
WORKDIR /work
VOLUME /state
EXPOSE 7878
STOPSIGNAL SIGTERM
# Alive, not ready: a daemon that waits for its database must not be restarted. /v1/ready says whether it takes prompts.
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:7878/v1/health').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# tini ends what a killed runner leaves behind.
ENTRYPOINT ["tini", "--", "breakfall"]
CMD ["up", "--host", "0.0.0.0", "--port", "7878", "--json"]
