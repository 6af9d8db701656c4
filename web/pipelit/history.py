"""/api/v1/workflows/{workflow}/chat/history: the conversation of a user with a pipeline's agent."""


from aiohttp import web

routes = web.RouteTableDef()
